"""Speed and memory: training, prediction, exports, large and wide tables."""
