"""Trains the model on stories that retell.py spelled, for a given time.

Matrices by Muon (orthogonalized momentum), embedding and norms by AdamW. The targets are the
teacher's soft distributions. After a while weights are quantized on the way forward, as files of 4,
5 and 8 bits have them, so that they learn to bear it.
"""

import argparse
import os
import time

import numpy as np
import torch

import model
import records
import retell

STORIES = 8  # of a step
MUON_RATE, ADAM_RATE = 0.03, 0.01
WARM_UP = 200  # steps
# A token belongs to the group of its beginning, if it comes in so large a share of the places of
# either.
RELATED = 0.01
DECAY_FROM = 0.3  # of the time: the rate falls to 0 from here
QUANTIZE_FROM = 0.5
AVERAGE = 0.998
# Shares of steps in which a matrix is rounded to so many bits; else it is not.
BITS = {4: 0.05, 5: 0.2, 8: 0.2}
EMBEDDING_BITS = {4: 0.05, 5: 0.25, 8: 0.25}


class Stories:
    """Places of many files, and batches of whole stories from them."""

    def __init__(self, paths):
        self.places = np.concatenate([np.load(path) for path in paths])
        starts = np.flatnonzero(self.places["token"] == records.BOS)
        ends = np.append(starts[1:], len(self.places))
        self.spans = np.stack([starts, ends], 1)
        self.groups = self.related_tokens()
        self.ratios = self.likelihood_ratios()

    def related_tokens(self):
        """A number for each token, the same for all that begin with the same token of the teacher.

        How likely each group is, the teacher says; which token of it comes, only the story.
        """
        known = self.places["kind"] >= retell.SOFT
        pairs = self.places["first"][known].astype(np.int64) * model.VOCAB
        pairs += np.append(self.places["token"][1:], records.BOS)[known]
        counts = np.bincount(pairs, minlength=model.VOCAB**2)
        counts = counts.reshape(model.VOCAB, model.VOCAB)
        rarer = np.minimum(counts.sum(1)[:, None], counts.sum(0)[None])
        groups = np.arange(model.VOCAB, dtype=np.int32)
        for first, token in zip(*np.nonzero(counts > RELATED * rarer)):
            groups[groups == groups[token]] = groups[first]
        return groups

    def likelihood_ratios(self):
        """How much likelier a token is after another than the teacher says, [before, token].

        That a token has ended tells that no longer one of this vocabulary was there: after `a`
        comes no `ll`, since ` all` is one. The teacher does not know.
        """
        drawn = np.zeros(model.VOCAB**2)
        said = np.zeros(model.VOCAB**2)
        for at in range(0, len(self.places), 1 << 18):
            places = self.places[at : at + (1 << 18)]
            places = places[places["kind"] >= retell.SOFT]
            row = places["token"].astype(np.int64) * model.VOCAB
            # Those drawn from the likeliest, which is where `said` is from, too.
            among = places["kind"] == retell.SOFT
            drawn += np.bincount((row + places["first"])[among], minlength=model.VOCAB**2)
            pairs = (row[:, None] + places["ids"]).ravel()
            p = places["p"].ravel() / 65535
            said += np.bincount(pairs, p, model.VOCAB**2)
        ratios = (drawn + 1) / (said + 1)
        return ratios.reshape(model.VOCAB, model.VOCAB).astype(np.float32)

    def batch(self, indices):
        """What Gradient.run takes, and how many positions have a target."""
        spans = self.spans[indices]
        sizes = np.minimum(spans[:, 1] - spans[:, 0], model.SEQ_LEN)
        lengths = ((sizes + 3) // 4 * 4).astype(np.int32)
        tokens = np.zeros(lengths.sum(), np.int32)
        targets = np.full(len(tokens), -1, np.int32)
        ids = np.zeros((len(tokens), 1 + records.TOP), np.int32)
        shares = np.zeros(ids.shape, np.float32)
        at = 0
        for (start, _), size, length in zip(spans, sizes, lengths):
            here = slice(at, at + size)
            places = self.places[start : start + size]
            kind = places["kind"]
            tokens[here] = places["token"]
            # The last story of all ends with the places; what follows it is BOS.
            came = np.full(size, records.BOS)
            following = self.places["token"][start + 1 : start + 1 + size]
            came[: len(following)] = following
            targets[here] = np.where(kind == retell.NO_TARGET, -1, came)

            p = places["p"] / np.float32(65535)
            rest = 1 - p.sum(1, keepdims=True)
            p *= self.ratios[places["token"][:, None], places["ids"]]
            p /= p.sum(1, keepdims=True) + rest + 1e-6
            # Where the teacher's probabilities say nothing of what came, it counts by itself. The
            # mean is the teacher's distribution.
            related = self.groups[places["first"]] == self.groups[came]
            hard = (kind == retell.HARD) | ((kind == retell.SOFT) & ~related)
            ids[here, 0] = came
            shares[here, 0] = hard | (kind == retell.SOFT_REST)
            ids[here, 1:] = places["ids"]
            shares[here, 1:] = p * ~hard[:, None]
            at += length
        batch = model.Batch(lengths, tokens, targets, ids, shares)
        return batch, int((targets >= 0).sum())


def orthogonalized(matrices):
    """The nearest orthogonal matrices, roughly, by five steps of Newton and Schulz."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Optimizer:
    """Muon for matrices, AdamW for the rest; `flat` is changed in place."""

    def __init__(self, flat):
        self.flat = flat
        self.momentum = torch.zeros_like(flat)
        self.square = torch.zeros_like(flat)
        self.steps = 0

    def step(self, gradient, rate):
        self.steps += 1
        gradient = gradient * min(1.0, 1.0 / float(gradient.norm()))
        weights = model.split(self.flat)
        gradients = model.split(gradient)
        momenta = model.split(self.momentum)
        squares = model.split(self.square)
        for name, weight in weights.items():
            g, m, s = gradients[name], momenta[name], squares[name]
            if name in model.MATRICES:
                m.lerp_(g, 0.05)
                update = orthogonalized(g.lerp(m, 0.95))
                scale = max(1.0, weight.shape[1] / weight.shape[2]) ** 0.5
                weight.mul_(1 - rate * MUON_RATE * 0.02)
                weight.sub_(update, alpha=rate * MUON_RATE * scale)
            else:
                m.lerp_(g, 0.1)
                s.lerp_(g.square(), 0.02)
                mean = m / (1 - 0.9**self.steps)
                deviation = (s / (1 - 0.98**self.steps)).sqrt() + 1e-10
                weight.sub_(mean / deviation, alpha=rate * ADAM_RATE)


def rounded(weight, bits):
    """The weights as a file has them in blocks of 32: Q4_0, Q5_0 or Q8_0."""
    blocks = weight.reshape(-1, 32)
    if bits == 8:
        scale = blocks.abs().amax(1, keepdim=True) / 127
        limits = -127, 127
    else:
        half = 1 << (bits - 1)
        largest = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))
        scale = largest / -half
        limits = -half, half - 1
    inverse = torch.where(scale == 0, 0, 1 / scale)
    # Scales are stored as f16.
    quants = (blocks * inverse).round().clamp(*limits)
    return (quants * scale.half().float()).reshape(weight.shape)


def quantized(flat, rng):
    """The weights, each matrix rounded to a number of bits that chance chooses."""
    flat = flat.clone()
    for name, weight in model.split(flat).items():
        if name in model.MATRICES:
            for layer in weight:
                bits = draw(BITS, rng)
                if bits:
                    layer.copy_(rounded(layer, bits))
        elif name == "embedding":
            bits = draw(EMBEDDING_BITS, rng)
            if bits:
                weight.copy_(rounded(weight, bits))
    return flat


def draw(shares, rng):
    coin = rng.random()
    for bits, share in shares.items():
        coin -= share
        if coin < 0:
            return bits
    return None


def initial(seed):
    generator = torch.Generator().manual_seed(seed)
    flat = torch.ones(model.Gradient.COUNT)
    for name, weight in model.split(flat).items():
        if name == "embedding":
            weight.normal_(0, 0.05, generator=generator)
        elif name in model.MATRICES:
            std = weight.shape[2] ** -0.5
            if name in ("wo", "w2"):
                std /= (2 * model.LAYERS) ** 0.5
            weight.normal_(0, std, generator=generator)
    return flat


def save(path, **arrays):
    with open(path + ".part", "wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stories", nargs="+", help="what retell.py wrote")
    parser.add_argument("--held-out", required=True, help="of other seeds, to measure")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the output")
    parser.add_argument("-o", "--output", required=True, help="the checkpoint to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)

    stories = Stories(args.stories)
    held_out = Stories([args.held_out])
    held_out_batch, held_out_count = held_out.batch(np.arange(64))
    # The loss that counts there is that of the tokens that came.
    held_out_batch.shares[:] = 0
    held_out_batch.shares[:, 0] = 1
    print(f"{len(stories.spans)} stories, {len(stories.places)} tokens", flush=True)

    rng = np.random.default_rng(args.seed)
    gradient_of = model.Gradient()
    flat = initial(args.seed)
    average = flat.clone()
    optimizer = Optimizer(flat)
    before, seen = 0.0, 0
    if args.resume:
        state = np.load(args.output)
        flat.copy_(torch.from_numpy(state["flat"]))
        average.copy_(torch.from_numpy(state["average"]))
        optimizer.momentum.copy_(torch.from_numpy(state["momentum"]))
        optimizer.square.copy_(torch.from_numpy(state["square"]))
        optimizer.steps, before, seen = int(state["steps"]), float(state["seconds"]), int(state["seen"])
        rng = np.random.default_rng([args.seed, optimizer.steps])

    start = time.monotonic() - before
    shown, saved = before, before
    loss_sum, loss_count = 0.0, 0
    gradient = np.zeros(model.Gradient.COUNT, np.float32)
    while True:
        elapsed = time.monotonic() - start
        progress = elapsed / (60 * args.minutes)
        done = progress >= 1
        if elapsed - shown > 30 or done:
            losses = gradient_of.run(average.numpy(), held_out_batch)
            print(
                f"{elapsed:.0f} s, step {optimizer.steps}, {seen / 1e6:.2f} M tokens, "
                f"loss {loss_sum / max(loss_count, 1):.4f}, "
                f"held-out {losses.sum() / held_out_count:.4f}",
                flush=True,
            )
            shown, loss_sum, loss_count = elapsed, 0.0, 0
        if elapsed - saved > 120 or done:
            saved = elapsed
            save(
                args.output,
                flat=flat.numpy(),
                average=average.numpy(),
                momentum=optimizer.momentum.numpy(),
                square=optimizer.square.numpy(),
                steps=optimizer.steps,
                seconds=elapsed,
                seen=seen,
            )
        if done:
            break
        chosen = rng.integers(len(stories.spans), size=STORIES)
        batch, count = stories.batch(chosen)
        weights = quantized(flat, rng) if progress > QUANTIZE_FROM else flat
        gradient[:] = 0
        losses = gradient_of.run(weights.numpy(), batch, stories.groups, 1 / count, gradient)
        rate = min(1, (optimizer.steps + 1) / WARM_UP)
        rate *= min(1, (1 - progress) / (1 - DECAY_FROM))
        optimizer.step(torch.from_numpy(gradient), rate)
        average.lerp_(flat, 1 - min(AVERAGE, optimizer.steps / (optimizer.steps + 10)))
        loss_sum += float(losses.sum())
        loss_count += count
        seen += count


if __name__ == "__main__":
    main()
