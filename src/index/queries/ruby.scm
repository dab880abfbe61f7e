(class name: (constant) @name) @type
(class name: (scope_resolution name: (constant) @name)) @type
(module name: (constant) @name) @type
(module name: (scope_resolution name: (constant) @name)) @type
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(alias name: (identifier) @name) @variable

(assignment left: (constant) @name) @variable
(assignment left: (instance_variable) @name) @member
((call method: (identifier) @maker arguments: (argument_list (simple_symbol) @name)) @variable
  (#any-of? @maker "attr_accessor" "attr_reader" "attr_writer" "define_method" "alias_method"))

(call method: (identifier) @name) @call
(call method: (constant) @name) @call
