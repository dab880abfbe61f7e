//! Characters that nobody sees, and the entities that stand for characters.

/// Whether S-05 removes the character everywhere: controls, joiners, fillers, direction marks, variation
/// selectors, tags.
pub(crate) fn is_invisible(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}' => true,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' => true,
        '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => true,
        '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' => true,
        '\u{FFF9}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}' => true,
        _ => false,
    }
}

/// Line ends become `\n`, invisible characters go; returns how many went.
pub(super) fn strip(text: &str) -> (String, usize) {
    let mut count = 0;
    let mut result = String::with_capacity(text.len());
    let mut all = text.chars().peekable();
    while let Some(c) = all.next() {
        match c {
            '\r' => {
                all.next_if_eq(&'\n');
                result.push('\n');
            }
            c if is_invisible(c) => count += 1,
            c => result.push(c),
        }
    }
    (result, count)
}

/// Named entities of invisible characters, and of those that open and close comments.
const NAMED: [(&str, char); 22] = [
    ("shy", '\u{AD}'),
    ("ZeroWidthSpace", '\u{200B}'),
    ("NegativeVeryThinSpace", '\u{200B}'),
    ("NegativeThinSpace", '\u{200B}'),
    ("NegativeMediumSpace", '\u{200B}'),
    ("NegativeThickSpace", '\u{200B}'),
    ("zwnj", '\u{200C}'),
    ("zwj", '\u{200D}'),
    ("lrm", '\u{200E}'),
    ("rlm", '\u{200F}'),
    ("NoBreak", '\u{2060}'),
    ("ApplyFunction", '\u{2061}'),
    ("af", '\u{2061}'),
    ("InvisibleTimes", '\u{2062}'),
    ("it", '\u{2062}'),
    ("InvisibleComma", '\u{2063}'),
    ("ic", '\u{2063}'),
    ("lt", '<'),
    ("LT", '<'),
    ("gt", '>'),
    ("GT", '>'),
    ("excl", '!'),
];

/// The entity that starts the text: its length and character. Numeric ones may lack the semicolon, as
/// browsers allow in raw HTML. Of the named ones only those that matter here are known.
pub(super) fn entity(text: &str) -> Option<(usize, char)> {
    let body = text.strip_prefix('&')?;
    if let Some(number) = body.strip_prefix('#') {
        let (digits, radix, most, mark) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16, 6, 3),
            None => (number, 10, 7, 2),
        };
        let length = digits.bytes().take(most).take_while(|b| (*b as char).is_digit(radix)).count();
        let c = char::from_u32(u32::from_str_radix(&digits[..length], radix).ok()?)?;
        let semicolon = usize::from(digits[length..].starts_with(';'));
        return Some((mark + length + semicolon, c));
    }
    let (name, c) =
        NAMED.iter().find(|(name, _)| body.strip_prefix(name).is_some_and(|rest| rest.starts_with(';')))?;
    Some((name.len() + 2, *c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_read_in_every_spelling() {
        assert_eq!(entity("&#8203;x"), Some((7, '\u{200B}')));
        assert_eq!(entity("&#x200b;"), Some((8, '\u{200B}')));
        assert_eq!(entity("&#X200B "), Some((7, '\u{200B}')));
        assert_eq!(entity("&zwj;"), Some((5, '\u{200D}')));
        assert_eq!(entity("&#60"), Some((4, '<')));
        for none in ["&", "&#", "&#x", "&#;", "&zwj", "&copy;", "&#xD800;", "&#x110000;", "x&lt;"] {
            assert_eq!(entity(none), None, "{none}");
        }
    }

    #[test]
    fn s_05_every_code_point_of_the_list_is_invisible_and_its_neighbours_are_not() {
        let ranges = [
            (0x00, 0x08),
            (0x0B, 0x1F),
            (0x7F, 0x9F),
            (0xAD, 0xAD),
            (0x34F, 0x34F),
            (0x61C, 0x61C),
            (0x115F, 0x1160),
            (0x17B4, 0x17B5),
            (0x180B, 0x180F),
            (0x200B, 0x200F),
            (0x202A, 0x202E),
            (0x2060, 0x206F),
            (0x3164, 0x3164),
            (0xFE00, 0xFE0F),
            (0xFEFF, 0xFEFF),
            (0xFFA0, 0xFFA0),
            (0xFFF9, 0xFFFB),
            (0x1D173, 0x1D17A),
            (0xE0000, 0xE0FFF),
        ];
        for c in '\0'..=char::MAX {
            let listed = ranges.iter().any(|(first, last)| (*first..=*last).contains(&(c as u32)));
            assert_eq!(is_invisible(c), listed, "{:04X}", c as u32);
        }
    }
}
