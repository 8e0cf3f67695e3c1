"""Captures a graph once and launches it five times."""
import torch

x = torch.arange(1000, dtype=torch.int64, device="cuda")
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    x.mul_(3).add_(1)
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.mul_(3).add_(1)
for turn in range(5):
    graph.replay()
print(x.sum().item())
