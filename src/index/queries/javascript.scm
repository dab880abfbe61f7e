(field_definition property: (property_identifier) @name) @variable
(field_definition property: (private_property_identifier) @name) @variable
