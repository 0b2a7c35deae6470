"""Writes text_metrics.json: corpora with their BLEU and chrF by sacreBLEU (see README.md in this folder).

    pip install sacrebleu==2.6.0 && python tests/reference/generate_text_metrics.py

A corpus is drawn from its name: adding a case changes no other.
"""

import json
import random
import zlib
from pathlib import Path

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

HERE = Path(__file__).resolve().parent

WORDS = """the a cat dog house red small sees hears runs of in on and not it is was 3 1994 1,000 3.5 Größe café
naïve übermorgen 東京 слово don't co-operate e-mail U.S. Mr. (perhaps) "so" [x] 50% $5 &amp; &quot;why&quot; AT&T <b>
5-6 1.-2 .. ... ,, a.b x/y tab\there no\u00a0break ideographic\u3000space thin\u2009one soft\u00adhyphen
separator\u001cx <skipped> ; : ! ? . , - ' ` ~ _ {x} #tag @you 2- -2 .5 5. ,7 7, café 한국 🙂""".split(" ")
WORDS = [word for line in WORDS for word in line.split("\n")]


def sentence(draw, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, most)))


def changed(draw, text, rate):
    """The text with words replaced, left out and put in."""
    words = []
    for word in text.split(" "):
        kind = draw.random() / rate
        if kind < 1 / 3:
            words.append(draw.choice(WORDS))
        elif kind < 2 / 3:
            words.extend([word, draw.choice(WORDS)])
        elif kind >= 1:
            words.append(word)
    return " ".join(words)


def corpus(name, count, most, references, rate):
    """Outputs of up to `most` words, each with 1 to `references` references that `rate` of their words differ from."""
    draw = random.Random(zlib.crc32(name.encode()))
    outputs = [sentence(draw, most) for _ in range(count)]
    known = [[changed(draw, output, rate) for _ in range(draw.randint(1, references))] for output in outputs]
    return name, outputs, known


CASES = [
    corpus("sentences", 40, 25, 1, 0.3),
    corpus("several references", 30, 20, 3, 0.4),
    corpus("far from every reference", 20, 12, 2, 0.95),
    corpus("short outputs", 30, 3, 2, 0.3),
    corpus("one sentence", 1, 30, 1, 0.3),
    ("equal", ["The cat sat on the mat.", "It rains."], [["The cat sat on the mat."], ["It rains.", "Rain!"]]),
    ("no match", ["a b c d e", "f g"], [["1 2 3 4 5"], ["6 7"]]),
    ("no match of two words", ["a b c d e"], [["a c b e d"]]),
    ("no output of four words", ["a b c", "d e"], [["a b c"], ["d e"]]),
    ("an empty output", ["", "the cat sat on the mat"], [["the dog", "it"], ["the cat sat on the mat"]]),
    ("empty outputs alone", ["", ""], [["the dog"], ["it"]]),
    ("an empty reference", ["the cat sat on the mat", "so"], [["the cat sat on a mat"], [""]]),
    ("nothing at all", [""], [[""]]),
    ("white space alone", ["  ", "\u00a0"], [["\t"], ["a b c d"]]),
    ("shorter than the references", ["the cat sat on the mat"], [["the cat sat on the mat and saw the dog"]]),
    ("references equally close", ["a b c d e f"], [["a b c d e f g h", "a b c d", "a b c d e f g h i"]]),
    ("a repeated word is clipped", ["the the the the the the"], [["the cat is on the mat", "there is a cat"]]),
    ("upper and lower case", ["The Cat Sat On The Mat"], [["the cat sat on The Mat"]]),
    ("line ends", ["a hy-\nphen and a\nline end here"], [["a hyphen and a line end here"]]),
]


def streams(references):
    """References as sacreBLEU takes them: the first of each output, the second of each, .."""
    most = max(len(known) for known in references)
    return [[known[index] if index < len(known) else None for known in references] for index in range(most)]


def case(name, outputs, references):
    known = streams(references)
    return {
        "name": name,
        "outputs": outputs,
        "references": references,
        "tokens_13a": [BLEU().tokenizer(output).split() for output in outputs],
        "bleu": BLEU().corpus_score(outputs, known).score,
        "bleu_of_words": BLEU(tokenize="none", force=True).corpus_score(outputs, known).score,
        "chrf": CHRF().corpus_score(outputs, known).score,
    }


def main():
    generator = json.dumps(f"generate_text_metrics.py, sacrebleu {sacrebleu.__version__}")
    cases = ",\n".join(json.dumps(case(*it), ensure_ascii=False) for it in CASES)
    text = f'{{"generator": {generator},\n"cases": [\n{cases}\n]}}\n'
    (HERE / "text_metrics.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
