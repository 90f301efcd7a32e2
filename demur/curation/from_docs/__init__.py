"""A small release from documents and questions of one's own: `make.from_docs`, in four steps, a file each.

questions   a list or a log of questions, with answers where they are known
gold        which passages answer a question, proposed by words and by the answer
review      a person's yes or no to each proposal
make        what was settled, with distractors, as a release and its corpora
"""
