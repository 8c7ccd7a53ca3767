// Predict from an exported model:    predict model.onnx < inputs.txt
//
// The numbers of one sample stand on one line, those of all inputs one after another; several lines are several
// samples. Every output is printed under its name and shape, a line for each sample.

#include <cstdio>
#include <iostream>
#include <sstream>

#include "pcarann.hpp"

static pcarann::Tensors read(const pcarann::Model& model, std::istream& from) {
  pcarann::Tensors inputs;
  for (const auto& port : model.inputs()) {
    inputs[port.name].shape = port.shape;
    inputs[port.name].shape.insert(inputs[port.name].shape.begin(), 0);
  }
  for (std::string line; std::getline(from, line);) {
    std::istringstream numbers(line);
    for (const auto& port : model.inputs()) {
      pcarann::Tensor& one = inputs[port.name];
      double value = 0;
      for (std::int64_t k = 0; k < port.size(); ++k) {
        if (!(numbers >> value)) throw std::runtime_error("a line ends before the last number of " + port.name);
        one.values.push_back(value);
      }
      ++one.shape[0];
    }
  }
  return inputs;
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: predict model.onnx < inputs.txt");
  const pcarann::Model model(argv[1]);
  const pcarann::Tensors found = model(read(model, std::cin));
  for (const auto& port : model.outputs()) {
    const pcarann::Tensor& one = found.at(port.name);
    std::printf("%s", port.name.c_str());
    for (const auto n : one.shape) std::printf(" %lld", static_cast<long long>(n));
    for (std::size_t k = 0; k < one.values.size(); ++k)
      std::printf("%c%.17g", k % static_cast<std::size_t>(port.size()) ? ' ' : '\n', one.values[k]);
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
