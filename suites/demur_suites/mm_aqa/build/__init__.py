"""How a set of MM-AQA is made: `make` calls the steps in order; the transformations are in `transforms`."""
