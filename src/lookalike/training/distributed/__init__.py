"""Training in several processes: launching, ranks, gathering, devices."""
