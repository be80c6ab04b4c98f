// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_TESTS_HOOKS_DIARY_STORE_H_
#define REPRISE_TESTS_HOOKS_DIARY_STORE_H_

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/stores.h"

namespace reprise::testing {

// Logs each tensor that is put, and its later use.
class DiaryStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    return std::make_unique<Entry>(*this, puts_++, tensor);
  }

  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override {
    if (tensors.size() > 1) {
      lines_.push_back("put " + std::to_string(tensors.size()) + " of " + owner);
    }
    return ActivationStore::put_all(tensors, owner);
  }

  int puts() const { return puts_; }
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }

 private:
  class Entry final : public StoredTensor {
   public:
    Entry(DiaryStore& diary, int number, const at::Tensor& tensor)
        : diary_(diary), number_(number), kept_(stores::device()->put(tensor)) {}
    void prefetch() override { write("prefetch "); }
    at::Tensor get() override {
      write("get ");
      return kept_->get();
    }
    std::int64_t device_bytes() const override { return kept_->device_bytes(); }

   private:
    void write(const std::string& what) { diary_.lines_.push_back(what + std::to_string(number_)); }
    DiaryStore& diary_;
    const int number_;
    const std::unique_ptr<StoredTensor> kept_;
  };

  int puts_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_HOOKS_DIARY_STORE_H_
