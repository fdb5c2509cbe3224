"""A finished model ready to embed: loading, ONNX and TorchScript export, the model card."""
