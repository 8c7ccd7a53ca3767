// Predictions of a surrogate in C++17 with no library at all: one header, which reads the file that
// `pcarann export model.pcarann -o model.onnx` writes and evaluates it in double precision.
//
//     pcarann::Model model("model.onnx");
//     auto found = model({{"inputs", {{1, 3}, {0.1, 0.2, 0.3}}}}, {"outputs"});      // a sample of three numbers
//     const std::vector<double>& u = found.at("outputs").values;                    // row after row
//
// The first axis of every tensor counts samples, as many as the caller likes. A model is never changed by a call, so
// that threads may share one. What goes wrong is a std::runtime_error in one sentence. The header knows the operators
// that these files are made of and no others; for files of other programs there is ONNX Runtime.

#ifndef PCARANN_HPP
#define PCARANN_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pcarann {

using Shape = std::vector<std::int64_t>;

inline std::int64_t count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Numbers on a grid, row after row. Whole numbers and truth values are held as doubles, which they fit in.
struct Tensor {
  Shape shape;
  std::vector<double> values;
  bool whole = false;  // division of whole numbers drops the remainder
};

// What goes in or comes out, by name; the number of samples, which comes first, is not in the shape.
struct Port {
  std::string name;
  Shape shape;
  std::int64_t size() const { return count(shape); }
};

using Tensors = std::map<std::string, Tensor>;

namespace detail {

[[noreturn]] inline void fail(const std::string& why) { throw std::runtime_error("pcarann: " + why); }

// ---- The file: messages of protocol buffers, each a list of numbered fields that are whole numbers or bytes ----

inline std::string_view take(std::string_view& from, std::uint64_t size) {
  if (size > from.size()) fail("the file is no ONNX file, or it ends too early.");
  const auto found = from.substr(0, size);
  from.remove_prefix(size);
  return found;
}

inline std::uint64_t take_whole(std::string_view& from) {
  std::uint64_t found = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(from, 1)[0]);
    found |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return found;
  }
  fail("the file is no ONNX file, or it is damaged.");
}

template <class Visit>
void fields(std::string_view message, Visit visit) {  // visit(number, bytes, whole number)
  while (!message.empty()) {
    const std::uint64_t key = take_whole(message), kind = key & 7;
    if (kind != 0 && kind != 1 && kind != 2 && kind != 5) fail("the file is no ONNX file, or it is damaged.");
    const std::uint64_t value = kind == 0 || kind == 2 ? take_whole(message) : 0;
    const auto bytes = take(message, kind == 2 ? value : kind == 1 ? 8 : kind == 5 ? 4 : 0);
    visit(static_cast<int>(key >> 3), kind == 0 ? std::string_view() : bytes, std::int64_t(value));
  }
}

// The last of the fields that has this number.
inline std::string_view inside(std::string_view message, int number) {
  std::string_view found;
  fields(message, [&](int n, std::string_view bytes, std::int64_t) { found = n == number ? bytes : found; });
  return found;
}

// One of several whole numbers, or all of them together.
inline void append(Shape& to, std::string_view bytes, std::int64_t value) {
  if (!bytes.data()) to.push_back(value);
  while (!bytes.empty()) to.push_back(std::int64_t(take_whole(bytes)));
}

template <class T>
std::vector<double> numbers(std::string_view bytes) {
  std::vector<double> found;
  found.reserve(bytes.size() / sizeof(T));
  while (!bytes.empty()) {
    T value;
    std::memcpy(&value, take(bytes, sizeof(T)).data(), sizeof(T));
    found.push_back(static_cast<double>(value));
  }
  return found;
}

enum Type { kFloat = 1, kInt64 = 7, kBool = 9, kDouble = 11 };

inline Tensor read_tensor(std::string_view message) {
  Tensor found;
  std::int64_t type = 0;
  fields(message, [&](int number, std::string_view bytes, std::int64_t value) {
    if (number == 1) append(found.shape, bytes, value);
    if (number == 2) type = value;
  });
  const auto raw = inside(message, 9);
  if (type == kFloat) found.values = numbers<float>(raw);
  if (type == kDouble) found.values = numbers<double>(raw);
  if (type == kInt64) found.values = numbers<std::int64_t>(raw);
  if (type == kBool) found.values = numbers<std::uint8_t>(raw);
  found.whole = type == kInt64;
  if (std::int64_t(found.values.size()) != count(found.shape)) fail("a constant is not as pcarann writes it.");
  return found;
}

struct Node {
  std::string op, output;
  std::vector<std::string> inputs;
  std::map<std::string, Shape> attributes;

  std::int64_t whole(const std::string& name, std::int64_t otherwise) const {
    const auto at = attributes.find(name);
    return at == attributes.end() ? otherwise : at->second.at(0);
  }
};

inline Node read_node(std::string_view message) {
  Node node{std::string(inside(message, 4)), std::string(inside(message, 2)), {}, {}};
  fields(message, [&](int number, std::string_view bytes, std::int64_t) {
    if (number == 1) node.inputs.emplace_back(bytes);
    if (number != 5) return;
    Shape& values = node.attributes[std::string(inside(bytes, 1))];
    fields(bytes, [&](int n, std::string_view some, std::int64_t value) {
      if (n == 3 || n == 8) append(values, some, value);
    });
  });
  return node;
}

inline Port read_port(std::string_view message) {
  Port port{std::string(inside(message, 1)), {}};
  fields(inside(inside(inside(message, 2), 1), 2), [&](int, std::string_view axis, std::int64_t) {
    fields(axis, [&](int number, std::string_view, std::int64_t length) {
      if (number == 1) port.shape.push_back(length);  // samples have a name and no length
    });
  });
  return port;
}

// ---- Arithmetic ----

using Inputs = std::vector<const Tensor*>;
using Operator = std::function<Tensor(const Inputs&, const Node&)>;

inline std::string shown(const Shape& shape) {
  std::string text = "(";
  for (const auto n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + ")";
}

inline std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  const auto found = axis < 0 ? axis + std::int64_t(rank) : axis;
  if (found < 0 || found >= std::int64_t(rank)) fail("an axis is not there.");
  return static_cast<std::size_t>(found);
}

// How far apart neighbours along each axis lie.
inline Shape strides(const Shape& shape) {
  Shape found(shape.size(), 1);
  for (std::size_t k = shape.size(); k-- > 1;) found[k - 1] = found[k] * shape[k];
  return found;
}

// The same as seen on a larger grid: 0 along axes on which values are repeated.
inline Shape strides_on(const Shape& grid, const Shape& shape) {
  const Shape own = strides(shape);
  Shape found(grid.size(), 0);
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (shape[k] != 1) found[grid.size() - shape.size() + k] = own[k];
  return found;
}

inline Shape common(const Shape& a, const Shape& b) {
  Shape found(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 0; k < found.size(); ++k) {
    const std::int64_t m = k < a.size() ? a[a.size() - 1 - k] : 1, n = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (m != n && m != 1 && n != 1) fail("shapes " + shown(a) + " and " + shown(b) + " do not go together.");
    found[found.size() - 1 - k] = m == 1 ? n : m;
  }
  return found;
}

// Visit a grid row after row, with the place of each point in arrays that have these strides on it.
template <std::size_t N, class Visit>
void walk(const Shape& grid, const std::array<Shape, N>& steps, Visit visit) {
  std::array<std::int64_t, N> at{};
  Shape index(grid.size(), 0);
  for (std::int64_t left = count(grid); left > 0; --left) {
    visit(at);
    for (std::size_t k = grid.size(); k-- > 0;) {
      for (std::size_t n = 0; n < N; ++n) at[n] += steps[n][k];
      if (++index[k] < grid[k]) break;
      for (std::size_t n = 0; n < N; ++n) at[n] -= steps[n][k] * grid[k];
      index[k] = 0;
    }
  }
}

template <class F>
Operator each(F f) {
  return [f](const Inputs& in, const Node&) {
    Tensor found = *in.at(0);
    for (double& value : found.values) value = f(value);
    return found;
  };
}

template <class F>
Tensor combined(const Tensor& a, const Tensor& b, F f) {
  Tensor found{common(a.shape, b.shape), {}, a.whole && b.whole};
  found.values.reserve(static_cast<std::size_t>(count(found.shape)));
  if (a.shape == b.shape) {
    for (std::size_t k = 0; k < a.values.size(); ++k) found.values.push_back(f(a.values[k], b.values[k]));
  } else {
    const std::array<Shape, 2> steps{strides_on(found.shape, a.shape), strides_on(found.shape, b.shape)};
    walk(found.shape, steps, [&](const auto& at) { found.values.push_back(f(a.values[at[0]], b.values[at[1]])); });
  }
  return found;
}

template <class F>
Operator pairs(F f) {  // of two or more
  return [f](const Inputs& in, const Node&) {
    Tensor found = *in.at(0);
    for (std::size_t k = 1; k < in.size(); ++k) found = combined(found, *in[k], f);
    return found;
  };
}

inline Tensor divided(const Inputs& in, const Node&) {
  if (in.at(0)->whole && in.at(1)->whole)
    return combined(*in[0], *in[1], [](double a, double b) { return std::trunc(a / b); });
  return combined(*in.at(0), *in.at(1), [](double a, double b) { return a / b; });
}

// Values gathered from one array, at places that lie on a grid in these steps.
inline Tensor picked(const Tensor& from, const Shape& grid, const Shape& steps) {
  Tensor found{grid, {}, from.whole};
  found.values.reserve(static_cast<std::size_t>(count(grid)));
  walk<1>(grid, {steps}, [&](const auto& at) { found.values.push_back(from.values[at[0]]); });
  return found;
}

inline Shape wholes(const Tensor& tensor) { return Shape(tensor.values.begin(), tensor.values.end()); }

inline Tensor product(const Inputs& in, const Node&) {
  Shape a = in.at(0)->shape, b = in.at(1)->shape;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.size() < 2 || b.size() < 2 || b.end()[-2] != a.back())
    fail("matrices " + shown(in[0]->shape) + " and " + shown(in[1]->shape) + " do not go together.");
  const std::int64_t m = a.end()[-2], k = a.back(), n = b.back();
  const Shape outer_a(a.begin(), a.end() - 2), outer_b(b.begin(), b.end() - 2);
  Tensor found{common(outer_a, outer_b), {}, false};
  const std::array<Shape, 2> steps{strides_on(found.shape, outer_a), strides_on(found.shape, outer_b)};
  found.values.assign(static_cast<std::size_t>(count(found.shape) * m * n), 0.0);
  double* out = found.values.data();
  walk(found.shape, steps, [&](const auto& at) {
    const double *left = in[0]->values.data() + at[0] * m * k, *right = in[1]->values.data() + at[1] * k * n;
    for (std::int64_t i = 0; i < m; ++i, out += n)
      for (std::int64_t l = 0; l < k; ++l)
        for (std::int64_t j = 0; j < n; ++j) out[j] += left[i * k + l] * right[l * n + j];
  });
  if (!row) found.shape.push_back(m);
  if (!column) found.shape.push_back(n);
  return found;
}

template <class F>
Operator reduced(F f, bool mean = false) {
  return [f, mean](const Inputs& in, const Node& node) {
    const Shape &all = in.at(0)->shape, own = strides(all);
    std::vector<bool> gone(all.size(), in.size() < 2);
    for (const auto axis : in.size() < 2 ? Shape{} : wholes(*in[1])) gone[axis_of(axis, all.size())] = true;
    Shape grid, steps, shape;
    for (const bool inner : {false, true})  // what is summed over goes last
      for (std::size_t k = 0; k < all.size(); ++k)
        if (gone[k] == inner) grid.push_back(all[k]), steps.push_back(own[k]);
    for (std::size_t k = 0; k < all.size(); ++k)
      if (!gone[k] || node.whole("keepdims", 1)) shape.push_back(gone[k] ? 1 : all[k]);
    const std::vector<double> rows = picked(*in[0], grid, steps).values;
    Tensor found{shape, {}, in[0]->whole};
    const auto length = count(shape) ? static_cast<std::ptrdiff_t>(rows.size()) / count(shape) : 0;
    for (auto row = rows.begin(); row != rows.end(); row += length) {
      const double sum = std::accumulate(row + 1, row + length, *row, f);
      found.values.push_back(mean ? sum / static_cast<double>(length) : sum);
    }
    return found;
  };
}

inline Tensor gathered(const Inputs& in, const Node& node) {
  const Tensor &x = *in.at(0), &indices = *in.at(1);
  const std::size_t axis = axis_of(node.whole("axis", 0), x.shape.size());
  const std::int64_t length = x.shape[axis], inner = strides(x.shape)[axis];
  Tensor found{Shape(x.shape.begin(), x.shape.begin() + axis), {}, x.whole};
  const std::int64_t outer = count(found.shape);
  found.shape.insert(found.shape.end(), indices.shape.begin(), indices.shape.end());
  found.shape.insert(found.shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  found.values.reserve(static_cast<std::size_t>(count(found.shape)));
  for (std::int64_t k = 0; k < outer; ++k)
    for (const double index : indices.values) {
      const auto at = std::int64_t(index) + (index < 0 ? length : 0);
      if (at < 0 || at >= length) fail("Gather reaches outside of its input.");
      const auto begin = x.values.begin() + (k * length + at) * inner;
      found.values.insert(found.values.end(), begin, begin + inner);
    }
  return found;
}

inline Tensor joined(const Inputs& in, const Node& node) {
  const std::size_t axis = axis_of(node.whole("axis", 0), in.at(0)->shape.size());
  Tensor found{in[0]->shape, {}, in[0]->whole};
  found.shape[axis] = 0;
  for (const Tensor* one : in) found.shape[axis] += one->shape.at(axis);
  const std::int64_t outer = count(Shape(found.shape.begin(), found.shape.begin() + axis));
  found.values.reserve(static_cast<std::size_t>(count(found.shape)));
  for (std::int64_t k = 0; k < outer; ++k)
    for (const Tensor* one : in) {
      const std::int64_t size = std::int64_t(one->values.size()) / outer;
      found.values.insert(found.values.end(), one->values.begin() + k * size, one->values.begin() + (k + 1) * size);
    }
  return found;
}

inline Tensor reshaped(const Inputs& in, const Node&) {
  Tensor found{wholes(*in.at(1)), in[0]->values, in[0]->whole};
  for (std::size_t k = 0; k < found.shape.size(); ++k)
    if (found.shape[k] == 0) found.shape[k] = in[0]->shape.at(k);
  const auto free = std::find(found.shape.begin(), found.shape.end(), -1);
  if (free != found.shape.end()) *free = 1, *free = std::int64_t(found.values.size()) / count(found.shape);
  if (count(found.shape) != std::int64_t(found.values.size()))
    fail(shown(in[0]->shape) + " cannot have the shape " + shown(found.shape) + ".");
  return found;
}

inline Tensor transposed(const Inputs& in, const Node& node) {
  const Shape own = strides(in.at(0)->shape);
  Shape order(own.size()), grid, steps;
  std::iota(order.rbegin(), order.rend(), 0);
  if (const auto at = node.attributes.find("perm"); at != node.attributes.end()) order = at->second;
  for (const auto axis : order) grid.push_back(in[0]->shape.at(axis)), steps.push_back(own.at(axis));
  return picked(*in[0], grid, steps);
}

inline Tensor unsqueezed(const Inputs& in, const Node&) {
  Tensor found = *in.at(0);
  Shape axes = wholes(*in.at(1));
  for (auto& axis : axes) axis = std::int64_t(axis_of(axis, found.shape.size() + axes.size()));
  std::sort(axes.begin(), axes.end());
  for (const auto axis : axes) found.shape.insert(found.shape.begin() + axis, 1);
  return found;
}

inline Tensor chosen(const Inputs& in, const Node&) {
  const Tensor &a = *in.at(1), &b = *in.at(2);
  Tensor found{common(in[0]->shape, common(a.shape, b.shape)), {}, a.whole};
  const auto on = [&](const Tensor& one) { return strides_on(found.shape, one.shape); };
  walk<3>(found.shape, {on(*in[0]), on(a), on(b)}, [&](const auto& at) {
    found.values.push_back(in[0]->values[at[0]] != 0 ? a.values[at[1]] : b.values[at[2]]);
  });
  return found;
}

inline Tensor cast(const Inputs& in, const Node& node) {
  const auto to = node.whole("to", kDouble);
  Tensor found = *in.at(0);
  found.whole = to == kInt64;
  for (double& value : found.values) value = found.whole ? std::trunc(value) : to == kBool ? value != 0 : value;
  return found;
}

inline const std::unordered_map<std::string, Operator>& operators() {
  using D = double;
  static const std::unordered_map<std::string, Operator> known{
      {"Abs", each([](D x) { return std::abs(x); })},
      {"Cos", each([](D x) { return std::cos(x); })},
      {"Exp", each([](D x) { return std::exp(x); })},
      {"Identity", each([](D x) { return x; })},
      {"Log", each([](D x) { return std::log(x); })},
      {"Neg", each([](D x) { return -x; })},
      {"Sin", each([](D x) { return std::sin(x); })},
      {"Sqrt", each([](D x) { return std::sqrt(x); })},
      {"Tanh", each([](D x) { return std::tanh(x); })},
      {"Add", pairs([](D a, D b) { return a + b; })},
      {"Greater", pairs([](D a, D b) { return D(a > b); })},
      {"Less", pairs([](D a, D b) { return D(a < b); })},
      {"Max", pairs([](D a, D b) { return std::isnan(a) || a > b ? a : b; })},
      {"Min", pairs([](D a, D b) { return std::isnan(a) || a < b ? a : b; })},
      {"Mul", pairs([](D a, D b) { return a * b; })},
      {"Pow", pairs([](D a, D b) { return std::pow(a, b); })},
      {"Sub", pairs([](D a, D b) { return a - b; })},
      {"ReduceMax", reduced([](D a, D b) { return std::isnan(a) || a > b ? a : b; })},
      {"ReduceMean", reduced([](D a, D b) { return a + b; }, true)},
      {"ReduceMin", reduced([](D a, D b) { return std::isnan(a) || a < b ? a : b; })},
      {"ReduceSum", reduced([](D a, D b) { return a + b; })},
      {"Cast", cast},
      {"Concat", joined},
      {"Div", divided},
      {"Gather", gathered},
      {"MatMul", product},
      {"Reshape", reshaped},
      {"Transpose", transposed},
      {"Unsqueeze", unsqueezed},
      {"Where", chosen},
  };
  return known;
}

}  // namespace detail

// A surrogate from its file.
class Model {
 public:
  explicit Model(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) detail::fail("there is no file " + path + ", or it cannot be read.");
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    detail::fields(bytes, [&](int number, std::string_view message, std::int64_t) {
      if (number == 14) metadata_.emplace(detail::inside(message, 1), detail::inside(message, 2));
    });
    detail::fields(detail::inside(bytes, 7), [&](int number, std::string_view message, std::int64_t) {
      if (number == 1) nodes_.push_back(detail::read_node(message));
      if (number == 5) constants_[std::string(detail::inside(message, 8))] = detail::read_tensor(message);
      if (number == 11) inputs_.push_back(detail::read_port(message));
      if (number == 12) outputs_.push_back(detail::read_port(message));
    });
    if (outputs_.empty()) detail::fail(path + " is no ONNX file with outputs.");
    for (const auto& node : nodes_)
      if (!detail::operators().count(node.op)) detail::fail("the operator " + node.op + " is not known here.");
  }

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Outputs for inputs by name, (samples, *shape) each: those of the names that are given, or all.
  Tensors operator()(const Tensors& inputs, std::vector<std::string> wanted = {}) const {
    if (wanted.empty())
      for (const Port& port : outputs_) wanted.push_back(port.name);
    for (const Port& port : inputs_) check(port, inputs);
    Tensors found;
    const auto value = [&](const std::string& name) -> const Tensor& {
      for (const Tensors* some : std::initializer_list<const Tensors*>{&found, &constants_, &inputs})
        if (const auto at = some->find(name); at != some->end()) return at->second;
      detail::fail("nothing is called " + name + ".");
    };
    const auto nodes = needed(wanted);
    std::map<std::string, const detail::Node*> last;  // that needs a value, which goes then
    for (const detail::Node* node : nodes)
      for (const auto& name : node->inputs) last[name] = node;
    for (const auto& name : wanted) last.erase(name);
    for (const detail::Node* node : nodes) {
      detail::Inputs in;
      for (const auto& name : node->inputs) in.push_back(&value(name));
      found[node->output] = detail::operators().at(node->op)(in, *node);
      for (const auto& name : node->inputs)
        if (const auto at = last.find(name); at != last.end() && at->second == node) found.erase(name);
    }
    return found;
  }

 private:
  static void check(const Port& port, const Tensors& inputs) {
    const auto at = inputs.find(port.name);
    if (at == inputs.end()) detail::fail("the input " + port.name + " is missing.");
    const auto& [shape, values, whole] = at->second;
    if (shape.empty() || Shape(shape.begin() + 1, shape.end()) != port.shape ||
        count(shape) != std::int64_t(values.size()))
      detail::fail(port.name + " has " + std::to_string(values.size()) + " values and the shape " +
                   detail::shown(shape) + ", expected (samples, *" + detail::shown(port.shape) + ").");
  }

  // The operators that these outputs come from, in order.
  std::vector<const detail::Node*> needed(const std::vector<std::string>& wanted) const {
    std::set<std::string> names(wanted.begin(), wanted.end());
    for (const auto& name : wanted)
      if (std::none_of(outputs_.begin(), outputs_.end(), [&](const Port& port) { return port.name == name; }))
        detail::fail("there is no output " + name + ".");
    std::vector<const detail::Node*> found;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      if (names.count(node->output)) {
        names.insert(node->inputs.begin(), node->inputs.end());
        found.insert(found.begin(), &*node);
      }
    return found;
  }

  std::vector<Port> inputs_, outputs_;
  std::vector<detail::Node> nodes_;
  Tensors constants_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace pcarann

#endif
