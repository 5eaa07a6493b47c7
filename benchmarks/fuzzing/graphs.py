def run(random, folder):
    return "success"


def warm():
    pass
