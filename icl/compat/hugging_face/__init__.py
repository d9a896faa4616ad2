"""Language models as Hugging Face stores them: `config.json` and `safetensors`.

Models of the families GPT-NeoX (Pythia), Llama, Mistral, Qwen 2 and 3, Gemma and GPT-2
are read and written. Nothing is downloaded. Tokenisers and other file formats do not
belong here.
"""

from ._cached import cached as cached
from ._folder import load as load, save as save
from ._steps import training_steps as training_steps
