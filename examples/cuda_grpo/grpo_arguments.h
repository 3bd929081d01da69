// The operator's schema, and its arguments checked: shared by the CPU and the CUDA implementation.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "grpo_token.h"

namespace lossgate_example {

// Returns the loss, of shape (), and its gradient by logps, (B, T), 0 at masked positions. Everything is computed
// in the dtype of logps, half types in float32; the loss of a half type stays float32.
constexpr char kSchema[] =
    "grpo_loss(Tensor logps, Tensor? old_logps, Tensor? ref_logps, Tensor advantages, Tensor mask, str loss_type, "
    "float beta, float epsilon_low, float epsilon_high, float? delta, int max_completion_length) "
    "-> (Tensor loss, Tensor grad)";

using LossAndGrad = std::tuple<at::Tensor, at::Tensor>;

struct Arguments {
  at::Tensor logps, old_logps, ref_logps, advantages, mask;  // contiguous; undefined where there is none
  Options options;

  template <typename T>
  Batch<T> batch() const {
    const bool by_token = advantages.dim() == 2;
    const int64_t columns = logps.size(1);
    return {
        logps.const_data_ptr<T>(),
        old_logps.defined() ? old_logps.const_data_ptr<T>() : nullptr,
        ref_logps.defined() ? ref_logps.const_data_ptr<T>() : nullptr,
        advantages.const_data_ptr<T>(),
        mask.const_data_ptr<bool>(),
        logps.size(0),
        columns,
        by_token ? columns : 1,
        by_token ? 1 : 0,
    };
  }

  // The dtype of the loss and of what is added up for it.
  at::ScalarType compute_type() const {
    return logps.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
};

inline Aggregation aggregation_of(const std::string& loss_type) {
  if (loss_type == "grpo") return Aggregation::completions;
  if (loss_type == "bnpo" || loss_type == "dapo") return Aggregation::tokens;
  if (loss_type == "dr_grpo") return Aggregation::constant;
  TORCH_CHECK_NOT_IMPLEMENTED(false, "loss_type: got '", loss_type, "', takes grpo, bnpo, dr_grpo or dapo");
}

inline at::Tensor checked(const char* name, const at::Tensor& tensor, const at::Tensor& logps) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == logps.scalar_type(), name, ": got ", tensor.scalar_type(),
                   ", takes the dtype of logps, ", logps.scalar_type());
  TORCH_CHECK_VALUE(tensor.device() == logps.device(), name, ": is on ", tensor.device(), ", logps on ",
                    logps.device(), "; move one of them");
  return tensor.contiguous();
}

inline at::Tensor checked_like(const char* name, const at::Tensor& tensor, const at::Tensor& logps) {
  TORCH_CHECK_VALUE(tensor.sizes() == logps.sizes(), name, ": got shape ", tensor.sizes(),
                    ", takes that of logps, ", logps.sizes());
  return checked(name, tensor, logps);
}

// Raises TypeError, ValueError or, for what this operator does not do, NotImplementedError.
inline Arguments checked_arguments(const at::Tensor& logps, const std::optional<at::Tensor>& old_logps,
                                   const std::optional<at::Tensor>& ref_logps, const at::Tensor& advantages,
                                   const at::Tensor& mask, const std::string& loss_type, double beta,
                                   double epsilon_low, double epsilon_high, std::optional<double> delta,
                                   int64_t max_completion_length) {
  TORCH_CHECK_VALUE(logps.dim() == 2, "logps: got shape ", logps.sizes(), ", takes (B, T)");
  TORCH_CHECK_VALUE(advantages.sizes() == logps.sizes() || advantages.sizes() == logps.sizes().slice(0, 1),
                    "advantages: got shape ", advantages.sizes(), ", takes (B,) or (B, T), here (B, T) is ",
                    logps.sizes());
  TORCH_CHECK_VALUE(mask.sizes() == logps.sizes(), "mask: got shape ", mask.sizes(), ", takes that of logps, ",
                    logps.sizes());
  TORCH_CHECK_TYPE(mask.scalar_type() == at::kBool, "mask: got ", mask.scalar_type(), ", takes Bool");
  TORCH_CHECK_VALUE(mask.device() == logps.device(), "mask: is on ", mask.device(), ", logps on ", logps.device(),
                    "; move one of them");
  TORCH_CHECK_VALUE(beta >= 0, "beta: got ", beta, ", takes a number of at least 0");
  TORCH_CHECK_VALUE(epsilon_low >= 0 && epsilon_low <= 1, "epsilon_low: got ", epsilon_low,
                    ", takes a number from 0 to 1");
  TORCH_CHECK_VALUE(epsilon_high >= 0, "epsilon_high: got ", epsilon_high, ", takes a number of at least 0");
  TORCH_CHECK_VALUE(!delta || *delta > 0, "delta: got ", delta.value_or(0), ", takes None or a number above 0");
  TORCH_CHECK_VALUE(max_completion_length >= 1, "max_completion_length: got ", max_completion_length,
                    ", takes an integer of at least 1");
  TORCH_CHECK_VALUE(beta == 0 || ref_logps, "ref_logps: got None, takes a tensor when beta is not 0");

  const double high = 1 + epsilon_high;
  const double infinity = std::numeric_limits<double>::infinity();
  Arguments arguments{
      .logps = checked("logps", logps, logps),
      .old_logps = old_logps ? checked_like("old_logps", *old_logps, logps) : at::Tensor(),
      .ref_logps = beta != 0 ? checked_like("ref_logps", *ref_logps, logps) : at::Tensor(),
      .advantages = checked("advantages", advantages, logps),
      .mask = mask.contiguous(),
      .options =
          {
              .aggregation = aggregation_of(loss_type),
              .beta = beta,
              .cap = std::min(high, delta.value_or(infinity)),
              .floor = 1 - epsilon_low,
              .ceiling = delta ? std::max(high, *delta) : infinity,
              .max_completion_length = max_completion_length,
          },
  };
  return arguments;
}

}  // namespace lossgate_example
