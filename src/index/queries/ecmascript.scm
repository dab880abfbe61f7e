; What JavaScript and TypeScript share.
(class_declaration name: (_) @name) @type
(class name: (_) @name) @type
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(function_expression name: (identifier) @name) @function
(method_definition name: (property_identifier) @name) @function
(method_definition name: (private_property_identifier) @name) @function

(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(variable_declarator name: (identifier) @name) @variable
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @function
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression)]) @function
(assignment_expression
  left: (member_expression object: (this) property: (property_identifier) @name)) @member

(call_expression function: (identifier) @name) @call
(call_expression function: (member_expression property: (property_identifier) @name)) @call
(call_expression function: (member_expression property: (private_property_identifier) @name)) @call
(new_expression constructor: (identifier) @name) @call
(new_expression constructor: (member_expression property: (property_identifier) @name)) @call
(decorator (identifier) @name) @call
