"""The public names of gpm and the modules that define them. `__init__.py` imports each when it is first used."""

from gpm.config import Config as Config
from gpm.data.graph_files import load_graph as load_graph
from gpm.errors import GpmError as GpmError
from gpm.estimators import GraphClassifier as GraphClassifier
from gpm.estimators import GraphRegressor as GraphRegressor
from gpm.estimators import LinkPredictor as LinkPredictor
from gpm.estimators import NodeClassifier as NodeClassifier
from gpm.estimators import NodeRegressor as NodeRegressor
from gpm.estimators import load as load
from gpm.explain.explanation import Explanation as Explanation
from gpm.explain.pyg_explainer import PatternExplainer as PatternExplainer
from gpm.explain.pyg_explainer import PatternModule as PatternModule
from gpm.graph.graph import Graph as Graph
from gpm.inference.predictions import Predictions as Predictions
from gpm.nn import FeatureTable as FeatureTable
from gpm.nn import GraphPatternMachine as GraphPatternMachine
from gpm.patterns.frequent import find_frequent as find_frequent
from gpm.patterns.shape_names import name_shape as name_shape
from gpm.patterns.tokenizer import Tokenizer as Tokenizer
from gpm.patterns.walks import WalkRule as WalkRule
from gpm.patterns.walks import walk as walk
from gpm.report.comparison import compare as compare
from gpm.run.run import Run as Run
from gpm.training.adapt import adapt as adapt
from gpm.training.adapt import unite as unite
from gpm.training.start import train as train

__version__: str
