//! One small file a language, every place in it; and files that mean harm.

use std::time::{Duration, Instant};

use super::*;

/// `definition` lines as `line-line scope.name`, calls as `line scope > name()`.
fn places(path: &str, text: &str) -> String {
    let path = RepoPath::parse(path).unwrap();
    let mut places = SourceSymbols.places(&path, text.as_bytes()).unwrap();
    places.sort_by_key(|place| (place.first, place.last));
    let shown = places.iter().map(|place| {
        let scope = place.scope.iter().map(|scope| scope.name.as_str()).collect::<Vec<_>>().join(".");
        assert!(text[place.offset..].trim_start_matches([':', '@', '#']).starts_with(&place.name));
        match place.is_definition {
            true => format!("{}-{} {scope} {}\n", place.first, place.last, place.name),
            false => format!("{} {scope} > {}()\n", place.first, place.name),
        }
    });
    shown.collect()
}

#[test]
fn python_classes_attributes_async_functions_and_decorators() {
    let text = r#"import os
LIMIT: int = 10
first, second = pair()

class Store(Base):
    """Calls like save() in a docstring are no calls."""
    retries = 3

    @property
    def size(self):
        count = len(self._rows)  # log(count) is a comment
        return count

    @app.route("/get()")
    async def get(self, key):
        self._rows = {}
        return await self.fetch(f"{quote(key)} plain()")

def main():
    Store().get(1)
"#;
    insta::assert_snapshot!(places("a.py", text), @"
    2-2  LIMIT
    3-3  first
    3-3  second
    3  > pair()
    5-17  Store
    7-7 Store retries
    9 Store > property()
    10-12 Store size
    11 Store.size > len()
    14 Store > route()
    15-17 Store get
    16-16 Store _rows
    17 Store.get > fetch()
    17 Store.get > quote()
    19-20  main
    20 main > get()
    20 main > Store()
    ");
}

#[test]
fn rust_impls_traits_fields_variants_macros_and_calls_in_macros() {
    let text = r#"const LIMIT: usize = 3;
macro_rules! twice { ($e:expr) => { $e; $e } }
mod inner { pub struct Row { id: u32 } }
pub enum Kind { Plain, Pair(u8) }
trait Load { type Error; fn load(&self) -> u8; }
impl<T> Load for Store<T> {
    fn load(&self) -> u8 {
        let local = parse::<u8>("x()");
        assert_eq!(check(self.rows()), Kind::Pair(1)); // gone()
        assert!(check (a) && rows == (2) || read::<Row>(n - (1)));
        crate::io::read(local).map(drop)
    }
}
#[derive(Debug)]
#[cfg(all(test))]
struct Plain;
mod outer;
"#;
    insta::assert_snapshot!(places("a.rs", text), @"
    1-1  LIMIT
    2-2  twice
    3-3  inner
    3-3 inner Row
    3-3 inner.Row id
    4-4  Kind
    4-4 Kind Plain
    4-4 Kind Pair
    5-5  Load
    5-5 Load Error
    5-5 Load load
    7-12 Store load
    8 Store.load > parse()
    9 Store.load > assert_eq()
    9 Store.load > check()
    9 Store.load > rows()
    9 Store.load > Pair()
    10 Store.load > assert()
    10 Store.load > check()
    11 Store.load > map()
    11 Store.load > read()
    16-16  Plain
    17-17  outer
    ");
}

#[test]
fn go_methods_belong_to_their_receiver() {
    let text = r#"package a

const Limit = 3

type Store[T any] struct {
	rows []T
}

type Loader interface {
	Load(key string) error
}

func (s *Store[T]) Load(key string) error {
	local := len(s.rows)
	return fmt.Errorf("gone() %d", local) // gone()
}

func main() { run(func() { stop() }) }
"#;
    insta::assert_snapshot!(places("a.go", text), @"
    3-3  Limit
    5-7  Store
    6-6 Store rows
    9-11  Loader
    10-10 Loader Load
    13-16 Store Load
    14 Store.Load > len()
    15 Store.Load > Errorf()
    18-18  main
    18 main > run()
    18 main > stop()
    ");
}

#[test]
fn java_constructors_fields_enums_and_records() {
    let text = r#"package a;
class Store<T> extends Base {
    static final int LIMIT = 3;
    Store(int size) { super(size); this.rows = new ArrayList<T>(); }
    /** gone() */
    @Override
    public String load(String key) {
        int local = size();
        return "gone()" + this.rows.get(local);
    }
    enum Kind { PLAIN, PAIR }
}
record Row(int id) {}
interface Loader { String load(String key); }
"#;
    insta::assert_snapshot!(places("A.java", text), @"
    2-12  Store
    3-3 Store LIMIT
    4-4 Store Store
    4 Store.Store > ArrayList()
    7-10 Store load
    8 Store.load > size()
    9 Store.load > get()
    11-11 Store Kind
    11-11 Store.Kind PLAIN
    11-11 Store.Kind PAIR
    13-13  Row
    14-14  Loader
    14-14 Loader load
    ");
}

#[test]
fn javascript_and_typescript_share_most() {
    let text = r#"import { x } from "y";
const limit = 3;
export const load = async (key) => { const local = fetch(key); return local; };
class Store extends Base {
  #rows = [];
  constructor() { super(); this.size = 0; }
  get(key) { return this.find(`${quote(key)} gone()`); } // gone()
}
module.exports.run = function () { new Store().get("gone()"); };
"#;
    insta::assert_snapshot!(places("a.js", text), @"
    2-2  limit
    3-3  load
    3 load > fetch()
    4-8  Store
    5-5 Store rows
    6-6 Store constructor
    6-6 Store size
    7-7 Store get
    7 Store.get > find()
    7 Store.get > quote()
    9-9  run
    9 run > get()
    9 run > Store()
    ");
    let text = r#"interface Loader { url: string; load(key: string): Promise<void>; }
type Key = string | number;
enum Kind { Plain, Pair = 2 }
abstract class Store<T> implements Loader {
  private rows: T[] = [];
  abstract load(key: string): Promise<void>;
}
namespace Inner { export function run(): void { stop<Key>(1); } }
"#;
    insta::assert_snapshot!(places("a.ts", text), @"
    1-1  Loader
    1-1 Loader url
    1-1 Loader load
    2-2  Key
    3-3  Kind
    3-3 Kind Plain
    3-3 Kind Pair
    4-7  Store
    5-5 Store rows
    6-6 Store load
    8-8  Inner
    8-8 Inner run
    8 Inner.run > stop()
    ");
    insta::assert_snapshot!(places("a.tsx", "const App = () => <Page title={title()} />;\n"), @"
    1-1  App
    1 App > title()
    ");
}

#[test]
fn ruby_modules_singleton_methods_and_accessors() {
    let text = r#"module Inner
  class Store < Base
    LIMIT = 3
    attr_reader :rows
    def self.open(path)
      local = File.read(path)
      new(local)
    end
    def load!(key) # gone()
      @cache = "gone() #{quote(key)}"
    end
  end
end
"#;
    insta::assert_snapshot!(places("a.rb", text), @"
    1-13  Inner
    2-12 Inner Store
    3-3 Inner.Store LIMIT
    4-4 Inner.Store rows
    4 Inner.Store > attr_reader()
    5-8 Inner.Store open
    6 Inner.Store.open > read()
    7 Inner.Store.open > new()
    9-11 Inner.Store load!
    10-10 Inner.Store cache
    10 Inner.Store.load! > quote()
    ");
}

#[test]
fn c_functions_prototypes_types_and_macros() {
    let text = r#"#define LIMIT 3
#define SQUARE(x) ((x) * (x))
struct row { int id; char *name; };
typedef struct { int n; } store_t;
enum kind { PLAIN, PAIR };
static int count = 0;
extern char *load(const char *key);
struct row *used;
typedef struct node { struct node *next; } node;
char *load(const char *key)
{
    int local = SQUARE(2);
    puts("gone()"); /* gone() */
    return ops->find(key);
}
"#;
    insta::assert_snapshot!(places("a.c", text), @"
    1-1  LIMIT
    2-2  SQUARE
    3-3  row
    3-3 row id
    3-3 row name
    4-4  store_t
    4-4 store_t n
    5-5  kind
    5-5 kind PLAIN
    5-5 kind PAIR
    6-6  count
    7-7  load
    8-8  used
    9-9  node
    9-9  node
    9-9 node next
    10-15  load
    12 load > SQUARE()
    13 load > puts()
    14 load > find()
    ");
}

#[test]
fn cpp_classes_members_namespaces_and_operators() {
    let text = r#"namespace inner {
template <typename T>
class Store : public Base {
public:
    explicit Store(int size);
    ~Store() override = default;
    Store& operator=(const Store& other);
    virtual char *load(const char *key) const;
    static Row& first() { return rows_.at(0); }
    int count = 0;
private:
    std::vector<T> rows_;
};
enum class Kind { Plain, Pair };
using Key = std::string;
}
struct Row { int id; };
char *inner::Store<int>::load(const char *key) const {
    auto local = std::make_unique<Row>(1); // gone()
    return this->find(Store::quote(key)) ? new Row(2) : nullptr;
}
Store::~Store() { close("gone()"); }
STATIC row_status load_fast(row *r) { return row_load(r); }
"#;
    insta::assert_snapshot!(places("a.hpp", text), @"
    1-16  inner
    3-13 inner Store
    5-5 inner.Store Store
    6-6 inner.Store ~Store
    8-8 inner.Store load
    9-9 inner.Store first
    9 inner.Store.first > at()
    10-10 inner.Store count
    12-12 inner.Store rows_
    14-14 inner Kind
    14-14 inner.Kind Plain
    14-14 inner.Kind Pair
    15-15 inner Key
    17-17  Row
    17-17 Row id
    18-21 Store load
    19 Store.load > make_unique()
    20 Store.load > find()
    20 Store.load > quote()
    20 Store.load > Row()
    22-22 Store ~Store
    22 Store.~Store > close()
    23-23  load_fast
    23 load_fast > row_load()
    ");
    assert_eq!(places("a.h", text), places("a.cc", text));
}

#[test]
fn unknown_languages_and_huge_files_are_none() {
    let none = |path: &str, text: &[u8]| SourceSymbols.places(&RepoPath::parse(path).unwrap(), text);
    assert_eq!(none("a.txt", b"def f(): pass"), None);
    assert_eq!(none("Makefile", b"all:"), None);
    assert_eq!(none("a.py", &vec![b'\n'; MAX_BYTES + 1]), None);
}

#[test]
fn hostile_files_end_soon_and_do_not_panic() {
    let nested = |open: &str, n: usize| open.repeat(n).into_bytes();
    let random: Vec<u8> = (0u32..100_000).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let files = [
        ("a.py", nested("(", 500_000)),
        ("a.py", nested("f(", 200_000)),
        ("a.py", nested("@", 300_000)),
        ("a.js", nested("{a:[", 100_000)),
        ("a.js", nested("`${", 100_000)),
        ("a.rs", nested("mod a {", 50_000)),
        ("a.rs", nested("m!(f(", 50_000)),
        ("a.c", nested("#if x\n", 50_000)),
        ("a.go", nested("func(){", 50_000)),
        ("a.rb", nested("def a\n", 50_000)),
        ("a.java", nested("class A {", 50_000)),
        ("a.tsx", nested("<a>", 100_000)),
        ("a.py", random.clone()),
        ("a.ts", random),
    ];
    for (path, text) in files {
        let start = Instant::now();
        let places = SourceSymbols.places(&RepoPath::parse(path).unwrap(), &text);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{path} starting {:?} took {:?}",
            String::from_utf8_lossy(&text[..8]),
            start.elapsed()
        );
        assert!(places.is_none_or(|places| places.iter().all(|place| place.scope.len() <= 2 * MAX_SCOPES)));
    }
}

#[test]
fn the_same_text_gives_the_same_places() {
    let text = "class A:\n    x, y = 1, 2\n    def f(self):\n        g()\n".repeat(200);
    assert_eq!(places("a.py", &text), places("a.py", &text));
}
