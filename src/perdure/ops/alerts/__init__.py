"""When somebody should look: rules over the metrics, watched here or by Prometheus, and a dashboard of the same."""
