(class_definition name: (identifier) @name) @type
(function_definition name: (identifier) @name) @function
(type_alias_statement left: (type (identifier) @name)) @variable

(assignment left: (identifier) @name) @variable
(assignment left: (pattern_list (identifier) @name)) @variable
(assignment left: (tuple_pattern (identifier) @name)) @variable
((assignment left: (attribute object: (identifier) @self attribute: (identifier) @name)) @member
  (#any-of? @self "self" "cls"))

(call function: (identifier) @name) @call
(call function: (attribute attribute: (identifier) @name)) @call
(decorator (identifier) @name) @call
(decorator (attribute attribute: (identifier) @name)) @call
