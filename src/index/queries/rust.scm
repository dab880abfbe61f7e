(struct_item name: (type_identifier) @name) @type
(enum_item name: (type_identifier) @name) @type
(union_item name: (type_identifier) @name) @type
(trait_item name: (type_identifier) @name) @type
(mod_item name: (identifier) @name body: (_)) @type
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(macro_definition name: (identifier) @name) @function

; Its contents stand in another file.
(mod_item name: (identifier) @name !body) @variable

(type_item name: (type_identifier) @name) @variable
(associated_type name: (type_identifier) @name) @variable
(const_item name: (identifier) @name) @variable
(static_item name: (identifier) @name) @variable
(field_declaration name: (field_identifier) @name) @variable
(enum_variant name: (identifier) @name) @variable

(impl_item type: (type_identifier) @name) @scope
(impl_item type: (generic_type type: (type_identifier) @name)) @scope
(impl_item type: (scoped_type_identifier name: (type_identifier) @name)) @scope

(call_expression function: (identifier) @name) @call
(call_expression function: (field_expression field: (field_identifier) @name)) @call
(call_expression function: (scoped_identifier name: (identifier) @name)) @call
(call_expression function: (generic_function function: (identifier) @name)) @call
(call_expression function: (generic_function function: (scoped_identifier name: (identifier) @name))) @call
(call_expression function: (generic_function function: (field_expression field: (field_identifier) @name))) @call
(macro_invocation macro: (identifier) @name) @call
(macro_invocation macro: (scoped_identifier name: (identifier) @name)) @call

; Arguments of a macro are unparsed tokens: a name right before parentheses is taken for a call.
(macro_invocation (token_tree (identifier) @name . (token_tree . "(") @arguments)) @call
(macro_invocation (token_tree (token_tree (identifier) @name . (token_tree . "(") @arguments))) @call
