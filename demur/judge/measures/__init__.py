"""Numbers from verdicts: one concept per file, pure functions over arrays.

    table       rows -> columns (the only place that knows `demur.core.records.Row`)
    repeats     several repeats of an item -> one item
    intervals   wilson(0.95), cluster-bootstrap(0.95,2000,seed=7)
    rates       accuracy, deflection, hallucination
    judge_error what the judge's own errors may do to a rate
    corrected   rates as labels of people put them
    joint       right in all scenarios of the same question
    totals      over parts, each counted alike
    behaviour   answer where evidence suffices, deflect where it does not
    paired      McNemar, paired bootstrap, Holm
    calibration expected error of a stated probability
    risk        risk against coverage, where systems state a confidence
    power       how many samples a difference of x points needs
    kappa       agreement of two labellers

An undefined value is None, never 0. Every `Measure` carries its n and what was unjudged or failed.
"""
