"""Makes the vocabulary of sampled stories, in llama2.c's form: SentencePiece's BPE with 512 tokens."""

import argparse
import io
import struct

import sentencepiece

import records

# Of the characters; the rest are spelled in bytes, which leaves more tokens for parts of words.
COVERAGE = 0.9999


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", help="the teacher's tokenizer.bin")
    parser.add_argument("records", nargs="+", help="what sample_stories wrote")
    parser.add_argument("-o", "--output", required=True, help="the tokenizer.bin to write")
    args = parser.parse_args()

    texts = records.read_tokenizer(args.teacher)
    sentences = (
        line
        for path in args.records
        for _, text in records.stories(path, texts)
        for line in text[1:].splitlines()
        if line
    )
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=model,
        model_type="bpe",
        vocab_size=512,
        byte_fallback=True,
        character_coverage=COVERAGE,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        num_threads=1,
        minloglevel=1,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokens = []
    for id in range(pieces.vocab_size()):
        text = {1: "\n<s>\n", 2: "\n</s>\n"}.get(id, pieces.id_to_piece(id))
        tokens.append((pieces.get_score(id), text.replace("\u2581", " ").encode()))
    with open(args.output, "wb") as file:
        file.write(struct.pack("<I", max(len(text) for _, text in tokens)))
        for score, text in tokens:
            file.write(struct.pack("<fi", score, len(text)) + text)


if __name__ == "__main__":
    main()
