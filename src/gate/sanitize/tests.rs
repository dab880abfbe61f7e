//! S-05, hidden thing by hidden thing; then texts that nobody would write.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn clean(text: &str) -> String {
    sanitize(text).text
}

#[test]
fn s_05_comments_go_nested_unclosed_and_spelled_oddly_ones_too() {
    for (text, expected) in [
        ("a <!-- x --> b", "a  b"),
        ("a\n<!-- x\n\n\ny -->\nb", "a\n\nb"),
        ("a\n\n<!-- open\n\n```\nall of it\n```\n", "a\n\n"),
        ("a <!-- open\nstill\n\nnext", "a \n\nnext"),
        ("a <!-<!-- x -->- inner --> b", "a  b"),
        ("a <!<!-<!-- x -->- y -->-- z --> b", "a  b"),
        ("a &lt;!-- x --&gt; b &#60;&#x21;-- y -->c", "a  b c"),
        ("a \\<!-- x --> b", "a  b"),
        ("a <!--> b <!---> c", "a  b  c"),
        ("a <?php x ?> b <!DOCTYPE x> c", "a  b  c"),
        ("<div>\n<!-- open\n\nhidden by the browser\n\n</div>\n\nand this", "<div>\n"),
        ("<div title=\"\n\nhidden\n\n\">also hidden</div>", ""),
    ] {
        assert_eq!(clean(text), expected, "{text}");
    }
    assert_eq!(sanitize("a <!-- x --> b <!-- y").removed.comments, 2);
}

#[test]
fn s_05_inside_code_only_invisible_characters_go() {
    for text in [
        "`<!-- x -->` and ``a ` <!-- b``",
        "```html\n<!-- x --> ![alt](u \"t\") &zwj; <b hidden>\n```",
        "~~~\n<!-- open\n~~~",
        "- list\n\n      indented <!-- x -->\n",
        "> ```\n> <!-- x -->\n> ```",
    ] {
        assert_eq!(clean(text), text);
        assert_eq!(sanitize(text).removed, Removed::default());
    }
    assert_eq!(clean("```\na\u{200B}b <!-- x -->\n```"), "```\nab <!-- x -->\n```");
    // An opener before a code span is no comment to GitHub; the code stays.
    assert_eq!(clean("a <!-- b `code` c\n\nd"), "a `code`\n\nd");
}

#[test]
fn s_05_alternative_texts_and_titles_go_destinations_stay() {
    for (text, expected) in [
        ("![do this](http://a/b.png)", "![](http://a/b.png)"),
        ("![](http://a/b.png \"do this\")", "![](http://a/b.png)"),
        ("![a ![b](c) `d`](http://e 'f')", "![](http://e)"),
        ("![one][r] ![r]\n\n[r]: u.png 'do this'", "![](u.png) ![](u.png)\n\n"),
        ("[shown](http://a \"do this\")", "[shown](http://a)"),
        ("[shown](http://a \"do](this\")", "[shown](http://a)"),
        ("[a [b] `c]`](<http://a b> (do this))", "[a [b] `c]`](http://a%20b)"),
        ("[![in](u)](v 'do this')", "[![](u)](v)"),
        ("[Foo\n  bar]\n\n[foo BAR]: http://a 'do this'", "[Foo\n  bar]\n\n[foo BAR]: http://a"),
        ("[s][r]\n\n[r]: http://a\n  'do this'", "[s][r]\n\n[r]: http://a"),
        ("![](a?b=1&c=2)", "![](a?b=1&c=2)"),
        ("<img src=\"u\" alt='do this' title=this>", "<img src=\"u\">"),
        ("```python do this\nx\n```", "```python\nx\n```"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
    }
}

#[test]
fn s_05_hidden_elements_and_attributes_go() {
    for (text, expected) in [
        ("a <b hidden>x</b> b", "a  b"),
        ("a <span style=\"color: red; Display : NONE\">x <span>y</span> z</span> b", "a  b"),
        ("<div hidden>\n\n# all\n\nof it\n\n</div>\n\nshown", "\n\nshown"),
        ("a <b hidden>x", "a "),
        ("a <script>do this</script> <template>and this</template> b", "a   b"),
        ("a <a href=\"u\" data-x=\"do this\" aria-label='and this'>b</a>", "a <a href=\"u\">b</a>"),
        ("List<String> and <do-this>", "List and "),
        (
            "<details open><summary>s</summary>\n\nx\n\n</details>",
            "<details open><summary>s</summary>\n\nx\n\n</details>",
        ),
        ("a <http://x.y/z> <me@x.y> 1 < 2 > 0", "a <http://x.y/z> <me@x.y> 1 < 2 > 0"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
    }
}

#[test]
fn s_05_no_element_that_is_never_shown_and_no_style_that_hides_keeps_its_words() {
    for name in [
        "applet", "audio", "canvas", "datalist", "embed", "head", "iframe", "math", "noembed", "noframes",
        "noscript", "object", "script", "select", "style", "svg", "template", "title",
    ] {
        // One has no content; its words can only stand in its attributes.
        let inside =
            if name == "embed" { "<embed alt=\"do this\">" } else { &format!("<{name}>do this</{name}>") };
        for text in [format!("a {inside} b"), format!("a {} b", inside.to_uppercase())] {
            assert_eq!(clean(&text), "a  b", "{text}");
        }
    }
    for style in ["display:none", "visibility:hidden", "visibility:collapse", "opacity:0", "font-size:0"] {
        let spread = style.replace(':', " :\t").to_uppercase();
        for style in [style.to_owned(), format!("color:red; {spread} ;")] {
            assert_eq!(clean(&format!("a <i style=\"{style}\">do this</i> b")), "a  b", "{style}");
        }
    }
}

#[test]
fn s_05_definitions_and_cells_that_are_shown_nowhere_go() {
    for (text, expected) in [
        ("a\n\n[//]: # (do this)\n\nb", "a\n\n\n\nb"),
        ("[r]\n\n[r]: u\n[r]: v 'do this'\n", "[r]\n\n[r]: u\n\n"),
        ("> quote\n>\n> [x]: u 'do this'\n", "> quote\n>\n> \n"),
        ("a[^1]\n\n[^1]: shown\n\n[^2]: do this\n", "a[^1]\n\n[^1]: shown\n\n"),
        ("> [!NOTE]\n> shown\n", "> [!NOTE]\n> shown\n"),
        ("a\n|-|-|\n|b|c\\|d| do this |\nc|d|do that\n\ne|f|g", "a\n|-|-|\n|b|c\\|d|\nc|d|\n\ne|f|g"),
        ("|a|\n|-|\n|b| do this |\n|c|\n", "|a|\n|-|\n|b|\n|c|\n"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
    }
}

#[test]
fn s_05_invisible_characters_and_their_entities_go_everywhere() {
    assert_eq!(clean("a\u{200B}b\u{E0041}\u{202E}c\r\nd\re\tf\u{0}"), "abc\nd\ne\tf");
    assert_eq!(clean("a&#8203;b&#x200B;c&zwj;d&shy;e &amp;#8203; &copy;"), "abcde &amp;#8203; &copy;");
    let removed = sanitize("a\u{200B}\u{FE0F}&zwj;").removed;
    assert_eq!((removed.invisible, removed.entities), (2, 1));
    // Line ends are no hidden characters.
    assert!(sanitize("a\r\nb").removed.is_empty());
}

#[test]
fn s_05_what_was_removed_is_told_in_words() {
    let removed = sanitize("<!-- a --> <!-- b --> &zwj;&zwnj; [x](y 'z')").removed;
    assert_eq!(removed.to_string(), "2 HTML comments, 1 title, 2 invisible entities");
    assert_eq!(Removed::default().to_string(), "nothing");
}

#[test]
fn s_05_an_issue_that_is_only_an_image_has_no_words() {
    for wordless in [
        "",
        " \n\n",
        "![words](http://a/b.png)",
        "<img src=\"u\" alt=\"words\">",
        "<p align=center>\n<img src=u alt=words>\n</p>\n\n<!-- words -->",
        "[![x](y)](z)",
        "---\n\n>  \n\n- \n",
    ] {
        assert!(!sanitize(wordless).has_words(), "{wordless}");
    }
    for worded in ["a", "![](u) a", "`a`", "<p>a</p>", "```\n1\n```", "日本"] {
        assert!(sanitize(worded).has_words(), "{worded}");
    }
}

#[test]
fn s_05_hostile_megabytes_take_no_longer_than_linear_time() {
    let size = 1_000_000;
    for part in [
        "<!--",
        "a <!--",
        "<!-",
        "`",
        "` ``",
        "[",
        "![",
        "![a](",
        "[a](b \"",
        "<b ",
        "<b hidden>",
        "</b>",
        "<b x=\"",
        "&#8203;",
        "&lt;!--",
        "&",
        "\\",
        "*a_",
        "> ",
        "- ",
        "|",
        "|a|\n|-|\n",
        "[a]: b 'c'\n",
        "[^a]: b\n",
        "```a b\n",
        "\u{200B}",
        "<!-- -->",
        "a\n\n",
        "\t",
        "--",
        "<script>`",
    ] {
        let text = part.repeat(size / part.len());
        let start = Instant::now();
        let once = sanitize(&text);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "{part:?} took {took:?}");
        assert!(once.text.len() <= text.len(), "{part:?}");
    }
    let nested = format!("{}{}", "<!-".repeat(100_000), "<!-- -->- -->".repeat(100_000));
    let flat = sanitize(&nested);
    assert!(flat.removed.flattened);
    assert_eq!(clean(&flat.text), flat.text);
}

fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        prop::sample::select(vec![
            "<!--",
            "-->",
            "<!",
            "-",
            ">",
            "<",
            "--",
            "!",
            "`",
            "``",
            "```",
            "~~~",
            "\n",
            "\n\n",
            "    ",
            "\t",
            "[",
            "]",
            "](",
            "(",
            ")",
            "![",
            "[a]",
            "[a]: b",
            "[^a]",
            "[^a]: ",
            "\"",
            "'",
            "<b",
            "</b>",
            " hidden",
            "=",
            "<script>",
            "&lt;",
            "&#8203;",
            "&#60",
            "&zwj;",
            "&",
            ";",
            "\\",
            "*",
            "_",
            "# ",
            "> ",
            "- ",
            "1. ",
            "|",
            "|-|",
            "\u{200B}",
            "\r\n",
            "\0",
            "a",
            "b c",
            "é",
            "日",
            "<div>\n",
            "<a href=x title=\"",
            "![a](b",
            "<http://x>",
            "[!NOTE]",
            "---",
            "===",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(fragment, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn s_05_is_idempotent_and_never_panics(text in fragments()) {
        let once = sanitize(&text);
        let twice = sanitize(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert!(twice.removed.is_empty());
        prop_assert!(!once.text.contains(is_invisible));
        once.has_words();
    }

    #[test]
    fn s_05_takes_any_string(text in "\\PC*") {
        let once = sanitize(&text).text;
        prop_assert_eq!(sanitize(&once).text, once);
    }
}
