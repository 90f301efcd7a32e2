"""A small release from a user's own documents and questions: `make.from_docs`, one file a step.

documents   read documents and cut them into passages
questions   read a list or a log of questions, with answers if they are known
gold        propose passages that answer a question
review      let a person say yes or no to each proposal
outcomes    decide what becomes of each question
make        write the release, with distractors, and its corpora
"""
