"""Compares the model with its teacher: the cross-entropy of a character of stories that the teacher
told with another seed, by both."""

import argparse

import numpy as np

import model
import records
import retell


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", help="the teacher's tokenizer.bin")
    parser.add_argument("vocabulary", help="the model's tokenizer.bin")
    parser.add_argument("records", help="what sample_stories wrote, with a seed not trained with")
    parser.add_argument("checkpoint", help="the model: what export.py wrote")
    args = parser.parse_args()
    teacher_texts = records.read_tokenizer(args.teacher)
    texts = records.read_tokenizer(args.vocabulary)
    places, stories = retell.retell([args.records], teacher_texts, texts)
    weights = np.fromfile(args.checkpoint, "<f4", model.Gradient.COUNT, offset=28)

    lengths, tokens, targets = [], [], []
    characters = teacher_loss = teacher_tokens = 0
    for at, length, text_length, loss, drawn in stories:
        if length > model.SEQ_LEN:
            continue
        padding = -length % 4
        story = places["token"][at : at + length].astype(np.int32)
        lengths.append(length + padding)
        tokens.append(np.pad(story, (0, padding)))
        # After the last token comes the BOS that ends it; -1 stands for no target.
        following = np.append(story[1:], records.BOS)
        targets.append(np.pad(following, (0, padding), constant_values=-1))
        characters += text_length
        teacher_loss += loss
        teacher_tokens += drawn
    targets = np.concatenate(targets).astype(np.int32)
    ids = np.maximum(targets, 0)[:, None]
    batch = model.Batch(
        np.array(lengths, np.int32),
        np.concatenate(tokens),
        targets,
        ids,
        np.ones(ids.shape, np.float32),
    )
    losses = model.Gradient().run(weights, batch)
    loss, count = losses.sum(dtype=np.float64), int((targets >= 0).sum())
    print(f"{len(lengths)} stories, {characters} characters")
    for who, nats, count in (
        ("teacher", teacher_loss, teacher_tokens),
        ("model", loss, count),
    ):
        print(
            f"{who}: {nats / characters:.4f} nats a character, "
            f"{characters / count:.3f} characters a token"
        )
    print(f"ratio: {loss / teacher_loss:.4f}")


if __name__ == "__main__":
    main()
