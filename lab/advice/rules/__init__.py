"""The rules, a module for each class of cost."""
