"""The local web page on which a trained model is tried out."""
