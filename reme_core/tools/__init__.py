"""Tool memory: how calls of tools went, and the guidance made of them."""
