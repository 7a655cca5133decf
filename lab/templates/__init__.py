"""Kernel templates: front matter, rendering, launch geometry and arguments.

Modules that other rooms import: `front_matter`, `instance`, `launch_rules`, `launches`, `mapping.mapping_facts`,
`mapping.mapping_model`, `mapping.scopes`, `mapping.text`, `plain.arguments`, `plain.bound`, `plain.building`,
`plain.constants`, `plain.draft`, `plain.draft_sequence`, `plain.entry`, `plain.launches`, `plain.macros`,
`plain.template`, `plain.triton`, `plain.triton_configs`, `plain.triton_draft`, `plain.unit`, `rendering`.
"""
