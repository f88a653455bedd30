#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The mutator on pieces of code: exactly the expected mutants, each a change of the right place."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutator  # pylint: disable=wrong-import-position
import run_mutants  # pylint: disable=wrong-import-position
import switches  # pylint: disable=wrong-import-position


def changes(source, file="src/plan/x.cpp"):
    return [mutant.change for mutant in mutator.mutants_of(file, source)]


def results(source, file="src/plan/x.cpp"):
    return [mutant.apply(source) for mutant in mutator.mutants_of(file, source)]


class MutatorTest(unittest.TestCase):
    def test_operators(self):
        for operator, other in (("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("==", "!="),
                                ("!=", "=="), ("+", "-"), ("-", "+"), ("*", "/"), ("/", "*"),
                                ("%", "*"), ("&&", "||"), ("||", "&&"), ("+=", "-=")):
            self.assertEqual(results(f"x = a {operator} b;"), [f"x = a {other} b;"])
        self.assertEqual(results("++i;"), ["--i;"])
        self.assertEqual(results("x = !a;"), ["x = a;"])

    def test_integers(self):
        self.assertEqual(results("x = 0;"), ["x = 1;"])
        self.assertEqual(results("x = 1;"), ["x = 0;", "x = 2;"])
        self.assertEqual(results("x = 65'536U;"), ["x = 65537U;"])
        self.assertEqual(results("x = 0x7fU; y = 1.5; z = a1;"), [])

    def test_values_that_are_returned(self):
        self.assertEqual(results("return true;"), ["return false;"])
        self.assertEqual(results("return false;"), ["return true;"])
        self.assertEqual(results("x = true;"), [])

    def test_statements(self):
        self.assertEqual(results("{ throw Error(a, b).in_file(c); }"), ["{ ; }"])
        self.assertEqual(results("{ a.b(c, [&] { return d; })->e(); }"), ["{ ; }"])
        self.assertEqual(results("{ std::sort<int>(a, b); }"), ["{ ; }"])
        # Declarations, assignments and values are no such statements.
        for source in ("{ Slicing slicing(a, b); }", "{ a = b(c); }", "{ return b(c); }",
                       "{ const auto a(b); }", "void a(int b);"):
            self.assertEqual(results(source), [], source)

    def test_calls_behind_conditions(self):
        self.assertEqual(changes("{ for (x : y) a(x); }"), ["call dropped"])
        self.assertEqual(changes("{ if (a < b) c(a); else d(); }"),
                         ["`<` -> `<=`", "call dropped", "call dropped #2"])

    def test_conditions_without_an_operator(self):
        self.assertEqual(results("if (a(b)) return;"), ["if (!(a(b))) return;"])
        self.assertEqual(changes("if (!a) return;"), ["`!` dropped"])
        self.assertEqual(changes("if (auto a = b()) return;"), [])

    def test_functions_and_bounds(self):
        self.assertEqual(results("x = std::min(a, b);"), ["x = std::max(a, b);"])
        self.assertEqual(results("x = limits<int>::max();"), [])
        self.assertEqual(results("x = a.begin();"), ["x = a.begin() + 1;"])
        self.assertEqual(results("x = a.end();"), ["x = a.end() - 1;"])
        self.assertEqual(results("x = a.front();"), ["x = a.back();"])
        self.assertEqual(results("x = begin; y = a.begin;"), [])

    def test_leaves_comments_and_texts_alone(self):
        for source in ("// a < b, 1", "/* a < b\n 1 */", "#define A 1 < \\\n 2", "x = \"a < 1\";",
                       "x = \"\\\" < 1\";", "x = '1';", "x = R\"(\" < 1)\";", "x = R\"y()\" 1)y\";"):
            self.assertEqual(results(source), [], source)

    def test_leaves_what_only_the_compiler_computes_alone(self):
        for source in ("static_assert(a == b + 1);", "{ static_assert(sizeof(a) < 4, \"\"); }",
                       "{ switch (a) { case 2: return b; } }"):
            self.assertEqual(results(source), [], source)
        self.assertEqual(results("{ static_assert(a == b); c(); }"), ["{ static_assert(a == b); ; }"])

    def test_leaves_texts_together(self):
        self.assertEqual(results('x = "a" + b;'), [])
        self.assertEqual(results('x += ", ";'), [])

    def test_leaves_the_brackets_of_templates_alone(self):
        for source in ("template <typename T, int N = 1>", "std::array<std::byte, 16> a{};",
                       "std::map<int, std::vector<std::pair<A, 1>>> a;", "x = static_cast<B>(y);",
                       "std::function<void(const A&)> a;"):
            self.assertEqual(results(source), [], source)
        self.assertEqual(results("x = f<std::vector<A>>(y) < z;"),
                         ["x = f<std::vector<A>>(y) <= z;"])

    def test_tells_pointers_and_signs_from_operators(self):
        for source in ("const A* a = &b;", "A&& a = *b;", "x = -y;", "bool operator==(const A&);"):
            self.assertEqual(results(source), [], source)

    def test_of_headers_only_bodies_of_functions(self):
        source = "struct A {\n  int b = 1;\n  int c() const { return d + e; }\n};\n"
        self.assertEqual(changes(source, "src/plan/x.h"), ["`+` -> `-`"])
        self.assertEqual(len(changes(source)), 3)

    def test_names_its_place(self):
        mutants = mutator.mutants_of("f.cpp", "a;\n  if (b == c && d == e) return;\n")
        self.assertEqual([(m.line, m.line_text, m.change) for m in mutants],
                         [(2, "if (b == c && d == e) return;", "`==` -> `!=`"),
                          (2, "if (b == c && d == e) return;", "`&&` -> `||`"),
                          (2, "if (b == c && d == e) return;", "`==` -> `!=` #2")])
        self.assertEqual([m.line_text for m in mutator.mutants_of("f.cpp", "x = 0;\n x = 0;")],
                         ["x = 0;", "x = 0; @2"])


class SwitchesTest(unittest.TestCase):
    def switched(self, source):
        mutants = [*mutator.mutants_of("x.cpp", source), *switches.constants_of("x.cpp", source)]
        file = switches.Switched(source, dict(enumerate(mutants, 1)))
        return file, file.text.replace("::mutants::", "").replace("static_cast<bool>", "bool")

    def test_forms(self):
        for source, expected in (
                ("x = 1;", "x = (on(1) ? 0 : on(2) ? 2 : 1);"),
                ("x = a < b;", "x = a < Less<1>() < b;"),
                ("a += b;", "a += Add<1>() += b;"),
                ("x = !a.b();", "x = (Not<1>)a.b();"),
                ("if (a) return true;", "if (on(1) != bool(a)) return (on(2) ? false : true);"),
                ("{ a(); }", "{ { if (!on(1)) { a(); } } }"),
                ("f(a, b.front(), c);", "f(a, (on(1) ? (b.back()) : (b.front())), c);"),
                ("constexpr A a = b;", "const A a = b;"),
                ("constexpr int a = 7;", "const int a = (live(1) ? 8 : 7);"),
                ("constexpr int f(A a);", "constexpr int f(A a);"),
                ("x = a && b || c;", "x = (on(1) ? (a || b || c) : on(2) ? (a && b && c) : (a && b || c));")):
            self.assertEqual(self.switched(source)[1], expected, source)

    def test_expressions_end_where_statements_and_lambdas_do(self):
        self.assertEqual(self.switched("x = [&] { y(); ++z; }; ++w;")[1],
                         "x = [&] { { if (!on(1)) { y(); } } (on(2) ? (--z) : (++z)); }; (on(3) ? (--w) : (++w));")
        self.assertEqual(self.switched("for (A a : b) ++c[T{d}.e];")[1],
                         "for (A a : b) (on(1) ? (--c[T{d}.e]) : (++c[T{d}.e]));")

    def test_lines_keep_their_numbers(self):
        source = "x = a &&  // one\n    b == 2;\ny = R\"(\n)\";\n"
        file, text = self.switched(source)
        self.assertEqual(text.splitlines()[2], 'y = R"(')
        # An error at the operator `==` is that operator's, at another place of the line all the line's.
        line = file.text.splitlines()[1]
        self.assertEqual(file.numbers_at(2, line.index("==") + 1), [2])
        self.assertEqual(file.numbers_at(3, 1), [])


class SelectionTest(unittest.TestCase):
    def test_a_sample_is_of_every_file_and_the_same_again(self):
        mutants = [mutant for name, lines in (("a.cpp", 90), ("b.cpp", 9), ("c.cpp", 1))
                   for mutant in mutator.mutants_of(name, "x = 0;\n" * lines)]
        chosen = run_mutants.sample(mutants, 20, 5)
        self.assertEqual([sum(m.file == name for m in chosen) for name in ("a.cpp", "b.cpp",
                                                                           "c.cpp")], [18, 2, 1])
        self.assertEqual(chosen, run_mutants.sample(mutants, 20, 5))
        self.assertNotEqual(chosen, run_mutants.sample(mutants, 20, 6))

    def test_every_entry_of_the_list_of_equivalent_mutants_is_one(self):
        equivalent = run_mutants.Equivalent(run_mutants.HERE / "equivalent.txt")
        files = run_mutants.all_files(list(run_mutants.mutant_build.JUDGES))
        for file in files:
            for mutant in mutator.mutants_of(file, (run_mutants.ROOT / file).read_text()):
                equivalent.reason(mutant)
        self.assertEqual(equivalent.unused(files), [])
        self.assertEqual({file for file, _ in equivalent.known} - set(files), set())


if __name__ == "__main__":
    unittest.main()
