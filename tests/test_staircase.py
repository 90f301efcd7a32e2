"""No file of demur imports another that imports it, inside functions neither. (Who may stand on whom: import-linter.)"""

from graphlib import TopologicalSorter

import grimp


def test_no_circle_between_files():
    graph = grimp.build_graph("demur", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # CycleError names the circle
