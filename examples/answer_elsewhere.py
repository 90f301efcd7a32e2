"""A system that demur does not run: it reads questions, and writes answers (docs/answers.md).

$ python examples/answer_elsewhere.py asks.jsonl answers.jsonl
"""

import json
import sys

questions, answers = sys.argv[1:]
with open(questions, encoding="utf-8") as asks, open(answers, "w", encoding="utf-8") as out:
    for line in asks:
        ask = json.loads(line)
        # Your system goes here; it may look at these, and at nothing else of the line.
        question, images, evidence = ask["question"], ask["images"], ask["evidence"]
        first = evidence[0] if evidence else None
        answer = first["title"] if first else "I cannot tell."
        out.write(json.dumps({"ask": ask["ask"], "answer": answer, "confidence": 0.5}) + "\n")
