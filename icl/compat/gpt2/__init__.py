"""GPT-2 as Hugging Face stores it: `config.json` and weights in `safetensors`.

Models of every size are read and written, with a language-model head. Tokenisers, other
architectures and other file formats do not belong here.
"""

from ._folder import load as load, save as save
