"""The same objects in the terms of the big frameworks.

A bridge is a dictionary: on one side the objects of this package, on the other what a
framework calls them. Importing a bridge imports no framework. Scripts ask ``missing()``
first, which says in one line what to install; what makes a tokenizer, a model or a dataset
imports what it needs when it is called.

    frameworks.py   which version of which framework this course speaks of
    token_ids.py    a trajectory as a language model's token ids, and back
    reading.py      what a framework hands over, looked at before it is believed
    vocabulary.py   one id for each token of the course, where no tokenizer is installed
    tiny_model.py   a tokenizer and a language model, made on the spot
    sums.py         sums of two digits, and a tokenizer of sixteen tokens for them
    trl.py, verl.py, openrlhf.py, agent_lightning.py    the dictionaries
    trl_worlds.py   tools, environment and rollouts as TRL takes them
"""
