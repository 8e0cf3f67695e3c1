"""A small Llama of Hugging Face in bf16, right or with one fault. Its printed result shows the fault.

    llama.py forward|generate|train [FAULT]

| fault | what is wrong |
| --- | --- |
| eps | the epsilon of one layer's norm |
| weight | one row of a projection's weight, which an additional launch changes |
| k | the keys of one layer, which an additional launch scales |
| loaded | one row of a projection's weight, before it is copied to the GPU |
| gradient | one gradient, which an additional launch scales (train) |
| rate | the learning rate of one parameter (train) |
"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

what, fault = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
torch.manual_seed(7)
config = LlamaConfig(
    vocab_size=256,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
layers = model.model.layers
if fault == "loaded":
    with torch.no_grad():
        layers[1].mlp.up_proj.weight[3] += 0.5
model = model.cuda()
tokens = torch.randint(1, 256, (2, 16)).cuda()

if fault == "eps":
    layers[2].input_layernorm.variance_epsilon = 0.5
if fault == "weight":
    with torch.no_grad():
        layers[1].mlp.up_proj.weight[3].add_(0.5)
if fault == "k":
    layers[2].self_attn.k_proj.register_forward_hook(lambda module, given, made: made * 1.5)

if what == "forward":
    with torch.no_grad():
        print(model(tokens).logits.float().sum().item())
elif what == "generate":
    print(model.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0).tolist())
else:
    rates = {"lr": 0.01}
    special = layers[1].mlp.down_proj.weight
    rest = [parameter for parameter in model.parameters() if parameter is not special]
    special_rate = 0.5 if fault == "rate" else 0.01
    optimizer = torch.optim.SGD([{"params": rest}, {"params": [special], "lr": special_rate}], foreach=False, **rates)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        if fault == "gradient":
            layers[2].self_attn.q_proj.weight.grad.mul_(3)
        optimizer.step()
    print(loss.item(), special.float().sum().item())
torch.cuda.synchronize()
