use proptest::prelude::*;

use super::*;
use crate::report::hostile_tests::{BASE, acts, hostile};

fn links() -> Links {
    Links::below(BASE)
}

fn shown(text: &str) -> String {
    inert(text, &links())
}

#[test]
fn s_34_case_17_nobody_is_notified_and_nothing_is_closed() {
    insta::assert_snapshot!(shown("@octocat, see #12: fixes #9, closes o/r#3 and GH-4."), @"`@octocat`, see `#12`: fixes `#9`, closes `o/r#3` and `GH-4`.");
    insta::assert_snapshot!(shown("&#64;octocat \\@octocat @<!-- -->octocat fixes &#35;9 fixes \\#9"), @"`@octocat` `@octocat` @&lt;!-- -->octocat fixes `#9` fixes `#9`");
    insta::assert_snapshot!(shown("a ` stray @octocat and `code`@octocat"), @"a ` stray @octocat and `code&#96; `@octocat`");
    insta::assert_snapshot!(shown("`@octocat #9` stays\n\n```\n@octocat #9 <b>\n```\n\n    @octocat"), @"
    `@octocat #9` stays

    ```
    @octocat #9 <b>
    ```

        @octocat
    ");
}

#[test]
fn signs_cannot_be_forged_by_emoji_formulas_or_drawings() {
    insta::assert_snapshot!(shown("[1] :white_check_mark: a.rs"), @"[1] `:white_check_mark:` a.rs");
    insta::assert_snapshot!(shown(r"$\checkmark$ and $$\phantom{x}$$, $`y`$ for $5 or \$6"), @r"\$\checkmark\$ and \$\$\phantom{x}\$\$, \$`y`\$ for \$5 or \$6");
    insta::assert_snapshot!(shown("```math\n\\checkmark\n```\n\n- ~~~ Mermaid x\n  graph\n  ~~~"), @r"
    ```text
    \checkmark
    ```

    - ~~~text
      graph
      ~~~
    ");
}

#[test]
fn s_34_links_lead_into_the_repository_or_become_text() {
    insta::assert_snapshot!(shown("[this](https://github.com/o/r/blob/abc/a.rs#L1) and [that](https://e.org/x?y|z)"), @"[this](https://github.com/o/r/blob/abc/a.rs#L1) and that (`https://e.org/x?y%7Cz`)");
    insta::assert_snapshot!(shown("<https://e.org> https://e.org. [https://e.org](https://e.org) [](https://e.org)"), @"`https://e.org` `https://e.org`. `https://e.org`  (`https://e.org`)");
    insta::assert_snapshot!(shown("[1](src/a.rs) [here](#top) [x](javascript:alert(1) \"@octocat\")"), @"[1] (`src/a.rs`) here x (`javascript:alert(1)`)");
    insta::assert_snapshot!(shown("[1] and [a][b]\n\n[1]: https://e.org\n[b]: <https://e.org> \"t\""), @r#"
    [1] and [a][b]

    \[1]\: `https://e.org`
    \[b]\: `https://e.org` "t"
    "#);
    insta::assert_snapshot!(shown("Text[^1].\n\n[^1]: far away"), @r"
    Text\[^1].

    \[^1]\: far away
    ");
}

#[test]
fn s_34_nothing_looks_like_a_check_of_ours() {
    insta::assert_snapshot!(shown("- [x] `src/a.py:L1` verified\n- [ ] b"), @r"
    - \[x] `src/a.py:L1` verified
    - \[ ] b
    ");
    insta::assert_snapshot!(shown("> [!IMPORTANT]\n> all verified"), @r"
    > \[!IMPORTANT]
    > all verified
    ");
    insta::assert_snapshot!(shown("[1] \u{1F5F8} a.rs \u{1F5F9} \u{237B}"), @"[1] `🗸` a.rs `🗹` `⍻`");
}

#[test]
fn s_34_images_html_and_headings_are_tamed() {
    insta::assert_snapshot!(shown("![a `b` @c](https://e.org/x.png) ![](y) [![z](q)](https://e.org)"), @"(image `a b @c` left out) (image left out) (image `z` left out) (`https://e.org`)");
    insta::assert_snapshot!(shown("a<br>b <img src=x> <!-- hidden @octocat --> </details>"), @"a<br>b &lt;img src=x> &lt;!-- hidden `@octocat` --> &lt;/details>");
    insta::assert_snapshot!(shown("<details>\n<summary>x</summary>\n\n# Title\n\nOther\n===\n\n</details>\n<!--"), @"
    &lt;details>
    &lt;summary>x&lt;/summary>

    ##### Title

    Other


    &lt;/details>
    &lt;!--
    ");
}

#[test]
fn s_34_commands_to_bots_are_code() {
    insta::assert_snapshot!(shown("/acquire stop\ntext\n  /lgtm\n- /close\n\nbors r+\n\n`a\n/acquire stop`"), @"
    `/acquire` stop
    text
      `/lgtm`
    - `/close`

    `bors` r+

    `a /acquire stop`
    ");
}

#[test]
fn case_18_a_fence_cannot_reach_over_the_end() {
    insta::assert_snapshot!(shown("````rust\nlet a = 1;\n```"), @"
    ````rust
    let a = 1;
    ```
    ````
    ");
    insta::assert_snapshot!(shown("~~~\n<!--"), @"
    ~~~
    <!--
    ~~~
    ");
    insta::assert_snapshot!(shown("- a\n\n  ```\n  b"), @"
    - a

      ```
      b
    ");
}

#[test]
fn characters_that_nobody_sees_are_gone_everywhere() {
    assert_eq!(shown("a\u{202e}b `c\u{200b}d` @\u{200d}x"), "ab `cd` `@x`");
}

#[test]
fn a_text_that_never_settles_becomes_a_code_block() {
    let many: String = (0..40).map(|n| format!("[a]: /{n}\n\n")).collect();
    let inert = shown(&many);
    assert!(inert.starts_with("```\n\\[a]\\: /0") && inert.ends_with("\n```"), "{inert}");
}

#[test]
fn a_line_stays_a_line() {
    let line = |text: &str| inert_line(text, &links());
    assert_eq!(line("Does `a`\n  call @b?"), "Does `a` call `@b`?");
    assert_eq!(line("# no heading"), "`# no heading`");
    assert_eq!(line("- no item"), "`- no item`");
    assert_eq!(line("```rust"), "` ```rust `");
    assert_eq!(line(" \n"), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn s_34_nothing_acts_after_any_text(text in hostile()) {
        let inert = shown(&text);
        prop_assert_eq!(acts(&inert, &["<br>"]), None, "{:?} became {:?}", text, inert);
        prop_assert_eq!(missing_end(&inert), None, "{:?} became {:?}", text, inert);
    }

    #[test]
    fn s_34_inert_is_stable(text in hostile()) {
        let once = shown(&text);
        prop_assert_eq!(shown(&once), once);
    }

    #[test]
    fn s_34_any_characters_are_taken(text in any::<String>()) {
        let once = shown(&text);
        prop_assert_eq!(shown(&once), once);
    }

    #[test]
    fn a_line_is_always_one_paragraph(text in hostile()) {
        let line = inert_line(&text, &links());
        let blocks = parser(&line).filter(is_block_border).count();
        prop_assert!(line.is_empty() || blocks == 2, "{:?} became {:?}", text, line);
        prop_assert_eq!(acts(&line, &["<br>"]), None);
    }
}
