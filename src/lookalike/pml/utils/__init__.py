"""``pytorch_metric_learning.utils``: accuracy, inference, several processes, index tuples."""
