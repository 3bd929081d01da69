// Operators of every kind that a target may be, around one loss: bnpo with a clipped ratio.

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>
#include <string_view>
#include <tuple>

using at::Tensor;

// Hand-written forward and backward on raw memory; sums in double.
std::tuple<Tensor, Tensor> fused(const Tensor& logps, const std::optional<Tensor>& old_logps,
                                 const Tensor& advantages, const Tensor& mask, double low, double high,
                                 int64_t tokens) {
  Tensor grad = at::zeros_like(logps);
  Tensor loss = at::empty({}, logps.options());
  AT_DISPATCH_FLOATING_TYPES(logps.scalar_type(), "fused", [&] {
    const scalar_t* now = logps.const_data_ptr<scalar_t>();
    const scalar_t* old = old_logps ? old_logps->const_data_ptr<scalar_t>() : now;
    const scalar_t* weight = advantages.const_data_ptr<scalar_t>();
    const bool* counts = mask.const_data_ptr<bool>();
    scalar_t* slope = grad.data_ptr<scalar_t>();
    const int64_t columns = logps.size(1);
    const double n = std::max<int64_t>(tokens, 1);
    double sum = 0;
    for (int64_t i = 0; i < logps.numel(); ++i) {
      if (!counts[i]) continue;
      const double a = weight[i / columns];
      const double r = std::exp(double(now[i]) - double(old[i]));
      const double free = r * a, clipped = std::clamp(r, 1 - low, 1 + high) * a;
      sum -= std::min(free, clipped);
      slope[i] = free <= clipped ? -free / n : 0;
    }
    *loss.data_ptr<scalar_t>() = sum / n;
  });
  return {loss, grad};
}

// The gradient of `fused`, and a loss through which autograd would find another: torch notices neither.
std::tuple<Tensor, Tensor> mixed(const Tensor& logps, const std::optional<Tensor>& old_logps,
                                 const Tensor& advantages, const Tensor& mask, double low, double high,
                                 int64_t tokens) {
  const auto [loss, grad] = fused(logps, old_logps, advantages, mask, low, high, tokens);
  return {loss + 0 * logps.sum(), grad};
}

Tensor no_gradient(const Tensor& logps, const std::optional<Tensor>& old_logps, const Tensor& advantages,
                   const Tensor& mask, double low, double high, int64_t tokens) {
  return std::get<0>(fused(logps, old_logps, advantages, mask, low, high, tokens));
}

// Of operators that autograd knows. The old log-probabilities must be there.
Tensor differentiable(const Tensor& log_probs, const Tensor& old_log_probs, const Tensor& advantages,
                      const Tensor& response_mask, double low, double high) {
  const Tensor a = advantages.dim() == 1 ? advantages.unsqueeze(1) : advantages;
  const Tensor r = at::exp(log_probs - old_log_probs);
  const Tensor losses = at::minimum(r * a, r.clamp(1 - low, 1 + high) * a) * response_mask;
  return -losses.sum() / response_mask.sum().clamp_min(1);
}

Tensor on_policy(const Tensor& logps, const Tensor& advantages, const Tensor& mask) {
  return differentiable(logps, logps.detach(), advantages, mask, 0.2, 0.2);
}

// As loss, what it was given: so many tokens, thousands of the length, millions of the flag and the text.
Tensor typed(const Tensor& logps, const Tensor&, const Tensor&, const at::Scalar& tokens, double length,
             bool bias_corrected, std::string_view loss_type) {
  const double told = tokens.toDouble() + 1e3 * length + 1e6 * bias_corrected + 2e6 * (loss_type == "bnpo");
  return 0 * logps.sum() + told;
}

Tensor refuses(const Tensor& logps, const Tensor&, const Tensor&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "not in this library");
  return logps;
}

Tensor crashes(const Tensor& logps, const Tensor&, const Tensor&) {
  std::raise(SIGSEGV);
  return logps;
}

#define FUSED_PARAMETERS                                                                                   \
  "(Tensor logps, Tensor? old_logps, Tensor completion_advantages, Tensor mask, float epsilon_low, " \
  "float epsilon_high, int num_items_in_batch)"

TORCH_LIBRARY(lossgate_test, library) {
  library.def("fused" FUSED_PARAMETERS " -> (Tensor loss, Tensor grad)");
  library.def("trained" FUSED_PARAMETERS " -> (Tensor loss, Tensor grad)");
  library.def("mixed" FUSED_PARAMETERS " -> (Tensor loss, Tensor grad)");
  library.def("no_gradient" FUSED_PARAMETERS " -> Tensor");
  library.def(
      "differentiable(Tensor log_probs, Tensor old_log_probs, Tensor advantages, Tensor response_mask, "
      "float cliprange_low, float cliprange_high, bool verbose=False) -> Tensor",
      [](const Tensor& l, const Tensor& o, const Tensor& a, const Tensor& m, double low, double high, bool) {
        return differentiable(l, o, a, m, low, high);
      });
  library.def("two.first(Tensor logps, Tensor advantages, Tensor mask) -> Tensor", &on_policy);
  library.def("two.second(Tensor logps, Tensor adv, Tensor mask) -> Tensor", &on_policy);
  library.def("crashes(Tensor logps, Tensor advantages, Tensor mask) -> Tensor", &crashes);
  library.def(
      "typed(Tensor logps, Tensor advantages, Tensor mask, Scalar num_items_in_batch, "
      "float max_completion_length, bool use_bias_correction_kl, str loss_type) -> Tensor",
      &typed);
  library.def("refuses(Tensor logps, Tensor advantages, Tensor mask) -> Tensor", &refuses);
  library.def("wants_hidden(Tensor logps, Tensor advantages, Tensor mask, Tensor hidden) -> Tensor");
  library.def("wants_integer(Tensor logps, Tensor advantages, Tensor mask, int beta) -> Tensor");
}

TORCH_LIBRARY_IMPL(lossgate_test, CPU, library) {
  library.impl("fused", &fused);
  library.impl("trained", &fused);
  library.impl("mixed", &mixed);
  library.impl("no_gradient", &no_gradient);
}
