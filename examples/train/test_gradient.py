"""gradient.c against PyTorch: losses and gradients of a random model. Run it before training."""

import numpy as np
import torch
from torch.nn import functional

from model import SHAPES, Batch, Gradient, split

LEN, COUNT = 132, 5


def reference(flat, tokens, groups, targets, ids, shares):
    """The losses of all positions, in float64."""
    w = split(flat)
    dim, heads, kv_heads, head = 64, 8, 4, 8
    batch, length = tokens.shape
    exponents = torch.arange(0, head, 2).double() / head
    angles = torch.outer(torch.arange(length).double(), 10000.0**-exponents)[:, None, :]

    def norm(x, weight):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight

    def rotate(x):
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(1j * angles)
        return torch.view_as_real(turned).flatten(-2)

    x = w["embedding"][tokens]
    for i in range(SHAPES["wq"][0]):
        h = norm(x, w["attention_norm"][i])
        q = rotate((h @ w["wq"][i].T).view(batch, length, heads, head))
        k = rotate((h @ w["wk"][i].T).view(batch, length, kv_heads, head))
        v = (h @ w["wv"][i].T).view(batch, length, kv_heads, head)
        k, v = (t.repeat_interleave(heads // kv_heads, 2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(2, 3) / head**0.5
        scores = scores + torch.full((length, length), -torch.inf).triu(1).double()
        h = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, dim)
        x = x + h @ w["wo"][i].T
        h = norm(x, w["ffn_norm"][i])
        x = x + (functional.silu(h @ w["w1"][i].T) * (h @ w["w3"][i].T)) @ w["w2"][i].T
    logits = norm(x, w["final_norm"]) @ w["embedding"].T
    p = logits.softmax(-1)
    of_groups = torch.zeros_like(p).index_add(-1, groups, p)
    loss = -(of_groups.log().gather(-1, groups[ids]) * shares).sum(-1)
    came = targets.clamp(min=0)[..., None]
    within = p.gather(-1, came) / of_groups.gather(-1, groups[came])
    return torch.where(targets < 0, 0, loss - within.log()[..., 0])


def main():
    generator = torch.Generator().manual_seed(1)
    flat = torch.randn(Gradient.COUNT, generator=generator) * 0.2
    tokens = torch.randint(512, (2, LEN), generator=generator)
    ids = torch.randint(512, (2, LEN, COUNT), generator=generator)
    shares = torch.rand(2, LEN, COUNT, generator=generator)
    groups = torch.randint(200, (512,), generator=generator)
    targets = torch.randint(-50, 512, (2, LEN), generator=generator).clamp(min=-1)
    batch = Batch(
        np.full(2, LEN, np.int32),
        tokens.flatten().int().numpy(),
        targets.flatten().int().numpy(),
        ids.flatten(0, 1).int().numpy(),
        shares.flatten(0, 1).numpy(),
    )

    truth = flat.double().requires_grad_()
    losses = reference(truth, tokens, groups, targets, ids, shares.double())
    (losses.sum() * 0.5).backward()
    gradient = np.zeros(Gradient.COUNT, np.float32)
    found = Gradient().run(flat.numpy(), batch, groups.int().numpy(), 0.5, gradient)
    off = np.abs(found - losses.detach().flatten().numpy()).max()
    assert off < 1e-3, f"losses differ by {off}"
    for name, expected in split(truth.grad).items():
        part = split(torch.from_numpy(gradient))[name]
        off = (part - expected).norm() / expected.norm()
        assert off < 1e-4, f"{name}: the gradient is off by {off:.2e} of its length"
    print("gradient.c agrees with PyTorch")


if __name__ == "__main__":
    main()
