(class_declaration name: (identifier) @name) @type
(interface_declaration name: (identifier) @name) @type
(enum_declaration name: (identifier) @name) @type
(record_declaration name: (identifier) @name) @type
(annotation_type_declaration name: (identifier) @name) @type
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(compact_constructor_declaration name: (identifier) @name) @function
(annotation_type_element_declaration name: (identifier) @name) @function

(field_declaration declarator: (variable_declarator name: (identifier) @name)) @variable
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @variable
(enum_constant name: (identifier) @name) @variable

(method_invocation name: (identifier) @name) @call
(object_creation_expression type: (type_identifier) @name) @call
(object_creation_expression type: (generic_type (type_identifier) @name)) @call
(object_creation_expression type: (scoped_type_identifier (type_identifier) @name .)) @call
