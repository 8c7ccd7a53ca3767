// The same as predict.cpp through ONNX Runtime:    predict_onnxruntime model.onnx < inputs.txt
//
// ONNX Runtime uses all cores and reads files of other programs too; this is for float64 files, as `pcarann export`
// writes them unless told otherwise.

#include <onnxruntime_cxx_api.h>

#include <cstdio>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

struct Input {
  std::string name;
  std::vector<std::int64_t> shape;  // the number of samples first
  std::vector<double> values;

  std::int64_t size() const {
    return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

static std::vector<Input> read(Ort::Session& session, std::istream& from) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<Input> inputs;
  for (std::size_t k = 0; k < session.GetInputCount(); ++k) {
    const auto type = session.GetInputTypeInfo(k);
    const auto about = type.GetTensorTypeAndShapeInfo();
    if (about.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) throw std::runtime_error("no float64 file");
    inputs.push_back({session.GetInputNameAllocated(k, allocator).get(), about.GetShape(), {}});
    inputs.back().shape[0] = 0;
  }
  for (std::string line; std::getline(from, line);) {
    std::istringstream numbers(line);
    for (Input& input : inputs) {
      double value = 0;
      for (std::int64_t k = 0; k < input.size(); ++k) {
        if (!(numbers >> value)) throw std::runtime_error("a line ends before the last number of " + input.name);
        input.values.push_back(value);
      }
      ++input.shape[0];
    }
  }
  return inputs;
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: predict_onnxruntime model.onnx < inputs.txt");
  const Ort::Env environment(ORT_LOGGING_LEVEL_WARNING, "pcarann");
  Ort::Session session(environment, argv[1], Ort::SessionOptions());
  std::vector<Input> inputs = read(session, std::cin);

  Ort::AllocatorWithDefaultOptions allocator;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<Ort::Value> tensors;
  std::vector<const char*> given, wanted;
  for (Input& one : inputs) {
    given.push_back(one.name.c_str());
    tensors.push_back(Ort::Value::CreateTensor<double>(memory, one.values.data(), one.values.size(), one.shape.data(),
                                                       one.shape.size()));
  }
  std::vector<Ort::AllocatedStringPtr> names;
  for (std::size_t k = 0; k < session.GetOutputCount(); ++k) {
    names.push_back(session.GetOutputNameAllocated(k, allocator));
    wanted.push_back(names.back().get());
  }
  const auto found =
      session.Run(Ort::RunOptions(), given.data(), tensors.data(), tensors.size(), wanted.data(), wanted.size());

  for (std::size_t k = 0; k < found.size(); ++k) {
    const auto shape = found[k].GetTensorTypeAndShapeInfo().GetShape();
    const double* values = found[k].GetTensorData<double>();
    const auto count = found[k].GetTensorTypeAndShapeInfo().GetElementCount();
    std::printf("%s", wanted[k]);
    for (const auto n : shape) std::printf(" %lld", static_cast<long long>(n));
    for (std::size_t i = 0; i < count; ++i)
      std::printf("%c%.17g", i % (count / static_cast<std::size_t>(shape[0])) ? ' ' : '\n', values[i]);
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
