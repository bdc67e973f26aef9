"""What all stems share: the vectors that make up a position, one for each of its codes or channels."""

from isopix.core.types import Tokens

Parts = list[Tokens]  # their sum stands for the whole position; a masking may leave some of them out
