"""A kernel that writes to an invalid address. The driver reports the error, and nothing hangs."""
import torch
import triton
import triton.language as tl


@triton.jit
def stray(at):
    tl.store((at + (1 << 44)).to(tl.pointer_type(tl.int32)), 1)


x = torch.ones(1000, device="cuda")
x.mul_(2)
torch.cuda.synchronize()
stray[(1,)](x.data_ptr())
try:
    torch.cuda.synchronize()
    print("nothing happened")
except Exception as error:
    print("illegal" in str(error))
