(function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
(function_definition
  declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @function
(function_definition
  declarator: (pointer_declarator
    declarator: (pointer_declarator
      declarator: (function_declarator declarator: (identifier) @name)))) @function
(preproc_function_def name: (identifier) @name) @function

(struct_specifier name: (type_identifier) @name body: (_)) @type
(union_specifier name: (type_identifier) @name body: (_)) @type
(enum_specifier name: (type_identifier) @name body: (_)) @type
(type_definition declarator: (type_identifier) @name) @type
(type_definition
  declarator: (function_declarator
    declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @variable

; A prototype counts as a definition: it is what a header has.
(declaration declarator: (function_declarator declarator: (identifier) @name)) @variable
(declaration
  declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @variable
(declaration declarator: (identifier) @name) @variable
(declaration declarator: (pointer_declarator declarator: (identifier) @name)) @variable
(declaration declarator: (array_declarator declarator: (identifier) @name)) @variable
(declaration declarator: (init_declarator declarator: (identifier) @name)) @variable
(declaration declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @name))) @variable
(declaration declarator: (init_declarator declarator: (array_declarator declarator: (identifier) @name))) @variable
(preproc_def name: (identifier) @name) @variable
(enumerator name: (identifier) @name) @variable
(field_declaration declarator: (field_identifier) @name) @variable
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @variable
(field_declaration declarator: (array_declarator declarator: (field_identifier) @name)) @variable
(field_declaration
  declarator: (function_declarator
    declarator: (parenthesized_declarator (pointer_declarator declarator: (field_identifier) @name)))) @variable

(call_expression function: (identifier) @name) @call
(call_expression function: (field_expression field: (field_identifier) @name)) @call
