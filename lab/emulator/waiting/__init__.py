"""Waits and barriers: block barriers, mbarriers and cluster barriers."""
