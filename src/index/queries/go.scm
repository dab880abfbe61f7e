(type_spec name: (type_identifier) @name) @type
(type_alias name: (type_identifier) @name) @variable
(function_declaration name: (identifier) @name) @function
(method_elem name: (field_identifier) @name) @function

(method_declaration
  receiver: (parameter_list (parameter_declaration type: (type_identifier) @owner))
  name: (field_identifier) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (pointer_type (type_identifier) @owner)))
  name: (field_identifier) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (generic_type type: (type_identifier) @owner)))
  name: (field_identifier) @name) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration
    type: (pointer_type (generic_type type: (type_identifier) @owner))))
  name: (field_identifier) @name) @function

(const_spec name: (identifier) @name) @variable
(var_spec name: (identifier) @name) @variable
(field_declaration name: (field_identifier) @name) @variable

(call_expression function: (identifier) @name) @call
(call_expression function: (selector_expression field: (field_identifier) @name)) @call
(call_expression function: (parenthesized_expression (identifier) @name)) @call
