"""Who waits for whom: block barriers, mbarriers and cluster barriers."""
