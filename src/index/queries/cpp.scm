; What C++ adds to C.
(class_specifier name: (type_identifier) @name body: (_)) @type
(class_specifier name: (template_type name: (type_identifier) @name) body: (_)) @type
(struct_specifier name: (template_type name: (type_identifier) @name) body: (_)) @type
(namespace_definition name: (namespace_identifier) @name body: (_)) @type
(namespace_definition
  name: (nested_namespace_specifier (namespace_identifier) @name .) body: (_)) @type
(alias_declaration name: (type_identifier) @name) @variable
(concept_definition name: (identifier) @name) @variable

(function_definition declarator: (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name)) @function
(function_definition
  declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @function
(function_definition
  declarator: (reference_declarator (function_declarator declarator: [(identifier) (field_identifier) (operator_name)] @name))) @function
(function_definition
  declarator: (function_declarator
    declarator: (qualified_identifier
      scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name))) @function
(function_definition
  declarator: (pointer_declarator
    declarator: (function_declarator
      declarator: (qualified_identifier scope: (_) @owner name: (identifier) @name)))) @function
(function_definition
  declarator: (reference_declarator
    (function_declarator
      declarator: (qualified_identifier scope: (_) @owner name: [(identifier) (operator_name)] @name)))) @function
; The type is written before the name, maybe in a namespace: `inner::Store::load`.
(function_definition
  declarator: (function_declarator
    declarator: (qualified_identifier
      name: (qualified_identifier
        scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name)))) @function
(function_definition
  declarator: (pointer_declarator
    declarator: (function_declarator
      declarator: (qualified_identifier
        name: (qualified_identifier scope: (_) @owner name: (identifier) @name))))) @function

; A declared member counts as a definition: it is what a header has.
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @variable
(field_declaration
  declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @variable
(field_declaration
  declarator: (reference_declarator (function_declarator declarator: (field_identifier) @name))) @variable
(field_declaration declarator: (reference_declarator (field_identifier) @name)) @variable
(declaration declarator: (reference_declarator (function_declarator declarator: (identifier) @name))) @variable
(declaration declarator: (reference_declarator (identifier) @name)) @variable
(declaration declarator: (init_declarator declarator: (reference_declarator (identifier) @name))) @variable

(call_expression function: (qualified_identifier name: (identifier) @name)) @call
(call_expression function: (qualified_identifier name: (qualified_identifier name: (identifier) @name))) @call
(call_expression function: (qualified_identifier name: (template_function name: (identifier) @name))) @call
(call_expression function: (template_function name: (identifier) @name)) @call
(call_expression function: (field_expression field: (template_method name: (field_identifier) @name))) @call
(new_expression type: (type_identifier) @name) @call
(new_expression type: (qualified_identifier name: (type_identifier) @name)) @call
(new_expression type: (template_type name: (type_identifier) @name)) @call
