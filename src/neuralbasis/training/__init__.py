"""Training: from codes and targets to a fitted model. `fit` is the whole way; nothing here is needed to predict."""
