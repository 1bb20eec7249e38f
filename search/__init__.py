"""Workload, joint space of kernel config and ACF, and the strategies that search it."""
